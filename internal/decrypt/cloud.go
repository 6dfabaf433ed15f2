package decrypt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf16"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"sigs.k8s.io/yaml"
)

// errMalformed stands for what a parser says, which may quote what it read.
var errMalformed = errors.New("malformed YAML or JSON")

// parseAWS reads static credentials.
func parseAWS(value []byte) (aws.CredentialsProvider, error) {
	var content struct {
		AccessKeyID     string `json:"aws_access_key_id"`
		SecretAccessKey string `json:"aws_secret_access_key"`
		SessionToken    string `json:"aws_session_token"`
	}
	if err := yaml.Unmarshal(value, &content); err != nil {
		return nil, errMalformed
	}
	if content.AccessKeyID == "" || content.SecretAccessKey == "" {
		return nil, errors.New("aws_access_key_id and aws_secret_access_key are needed")
	}
	return credentials.NewStaticCredentialsProvider(content.AccessKeyID, content.SecretAccessKey, content.SessionToken), nil
}

// azureConfig is what sops.azure-kv may hold. The names of the second part are those that the program az prints.
type azureConfig struct {
	TenantID                   string `json:"tenantId"`
	ClientID                   string `json:"clientId"`
	ClientSecret               string `json:"clientSecret"`
	ClientCertificate          string `json:"clientCertificate"`
	ClientCertificatePassword  string `json:"clientCertificatePassword"`
	ClientCertificateSendChain bool   `json:"clientCertificateSendChain"`
	AuthorityHost              string `json:"authorityHost"`

	Tenant   string `json:"tenant"`
	AppID    string `json:"appId"`
	Password string `json:"password"`
}

// parseAzure reads a service principal with a secret or a certificate, or the id of a managed identity.
func parseAzure(value []byte) (azcore.TokenCredential, error) {
	text, err := decodeUTF16(value)
	if err != nil {
		return nil, err
	}
	var c azureConfig
	if err := yaml.Unmarshal(text, &c); err != nil {
		return nil, errMalformed
	}
	return c.credential()
}

func (c azureConfig) credential() (azcore.TokenCredential, error) {
	options := azcore.ClientOptions{Cloud: cloud.AzurePublic}
	if c.AuthorityHost != "" {
		options.Cloud.ActiveDirectoryAuthorityHost = c.AuthorityHost
	}
	switch {
	case c.TenantID != "" && c.ClientID != "" && c.ClientSecret != "":
		return azureSecret(c.TenantID, c.ClientID, c.ClientSecret, options)
	case c.TenantID != "" && c.ClientID != "" && c.ClientCertificate != "":
		certificates, key, err := azidentity.ParseCertificates([]byte(c.ClientCertificate), []byte(c.ClientCertificatePassword))
		if err != nil {
			return nil, errors.New("clientCertificate can't be read: PEM or PKCS 12 with its key is needed, and the right clientCertificatePassword")
		}
		credential, err := azidentity.NewClientCertificateCredential(c.TenantID, c.ClientID, certificates, key,
			&azidentity.ClientCertificateCredentialOptions{ClientOptions: options, SendCertificateChain: c.ClientCertificateSendChain})
		return orRefused(credential, err)
	case c.Tenant != "" && c.AppID != "" && c.Password != "":
		return azureSecret(c.Tenant, c.AppID, c.Password, options)
	case c.ClientID != "" && c.TenantID == "":
		credential, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
			ID: azidentity.ClientID(c.ClientID)})
		return orRefused(credential, err)
	}
	return nil, errors.New("invalid data: requires a 'clientId', or 'tenantId' and 'clientId' with a 'clientSecret' or a 'clientCertificate', or 'tenant', 'appId' and 'password'")
}

func azureSecret(tenant, client, secret string, options azcore.ClientOptions) (azcore.TokenCredential, error) {
	credential, err := azidentity.NewClientSecretCredential(tenant, client, secret, &azidentity.ClientSecretCredentialOptions{ClientOptions: options})
	return orRefused(credential, err)
}

// orRefused leaves out what the library says, which may quote a field.
func orRefused[T azcore.TokenCredential](credential T, err error) (azcore.TokenCredential, error) {
	if err != nil {
		return nil, errors.New("the library of Azure refuses a field: check the ids and the host")
	}
	return credential, nil
}

// decodeUTF16 returns the text as UTF-8. What the shell of Windows writes to a file is UTF-16 with a mark at its beginning.
func decodeUTF16(value []byte) ([]byte, error) {
	var unit func(b []byte) uint16
	switch {
	case bytes.HasPrefix(value, []byte{0xff, 0xfe}):
		unit = func(b []byte) uint16 { return uint16(b[0]) | uint16(b[1])<<8 }
	case bytes.HasPrefix(value, []byte{0xfe, 0xff}):
		unit = func(b []byte) uint16 { return uint16(b[1]) | uint16(b[0])<<8 }
	default:
		return bytes.TrimPrefix(value, []byte{0xef, 0xbb, 0xbf}), nil
	}
	if len(value)%2 != 0 {
		return nil, errors.New("malformed UTF-16: odd number of bytes")
	}
	units := make([]uint16, 0, len(value)/2)
	for i := 2; i < len(value); i += 2 {
		units = append(units, unit(value[i:i+2]))
	}
	return []byte(string(utf16.Decode(units))), nil
}

// gcpScope is what decryption needs.
const gcpScope = "https://www.googleapis.com/auth/cloudkms"

// parseGCP reads credentials of a service account or of a user. Other kinds read files, start programs or send tokens to where they
// say: for the controller that would be its own.
func parseGCP(ctx context.Context, value []byte) (oauth2.TokenSource, error) {
	value = bytes.Trim(value, "\n")
	var content struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(value, &content); err != nil {
		return nil, errMalformed
	}
	kind := google.CredentialsType(content.Type)
	if kind != google.ServiceAccount && kind != google.AuthorizedUser {
		return nil, fmt.Errorf("credentials of this type are not supported: use service_account or authorized_user")
	}
	found, err := google.CredentialsFromJSONWithType(ctx, value, kind, gcpScope)
	if err != nil {
		return nil, errors.New("malformed credentials")
	}
	return found.TokenSource, nil
}
