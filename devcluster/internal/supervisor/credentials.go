package supervisor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Files of the credentials, below pki. They are made once per directory and
// used again, so that a kubeconfig outlives a restart.
const (
	fileCA         = "ca.crt"
	fileCAKey      = "ca.key"
	fileServing    = "apiserver.crt"
	fileServingKey = "apiserver.key"
	fileAccountKey = "service-account.key"
	fileTokens     = "tokens.csv"
)

// nodeName is the name of the only node.
const nodeName = "devcluster"

// identity is a user of the API server who has a token.
type identity struct{ name, user, groups string }

// The controller manager is an administrator here: in production each of its
// controllers has an account of its own, which costs seconds at the start.
var identities = []identity{
	{"admin", "devcluster-admin", "system:masters"},
	{"controller-manager", "system:kube-controller-manager", "system:masters"},
	{"scheduler", "system:kube-scheduler", ""},
	{"kubelet", "system:node:" + nodeName, "system:nodes"},
}

// writeCredentials makes what is missing and writes a kubeconfig per identity,
// which is new each time because the port may be.
func writeCredentials(l layout, port int) error {
	_, err := os.Stat(l.pki(fileTokens))
	if errors.Is(err, fs.ErrNotExist) {
		err = createCredentials(l)
	}
	if err != nil {
		return unusable(l.dir, err)
	}
	tokens, err := readTokens(l)
	if err != nil {
		return unusable(l.dir, err)
	}
	for _, id := range identities {
		if err := writeKubeconfig(l, id, tokens[id.user], port); err != nil {
			return unusable(l.dir, err)
		}
	}
	if err := writeFile(l.port(), fmt.Appendln(nil, port)); err != nil {
		return unusable(l.dir, err)
	}
	return nil
}

// createCredentials writes the tokens last: their file says that all is there.
func createCredentials(l layout) error {
	ca := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "devcluster"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caKey, err := issue(l, fileCA, fileCAKey, ca, nil, nil)
	if err != nil {
		return err
	}
	serving := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceIP)},
	}
	if _, err := issue(l, fileServing, fileServingKey, serving, ca, caKey); err != nil {
		return err
	}
	if _, err := newKey(l.pki(fileAccountKey)); err != nil {
		return err
	}
	var tokens strings.Builder
	for _, id := range identities {
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", newToken(), id.user, id.user, id.groups)
	}
	return writeFile(l.pki(fileTokens), []byte(tokens.String()))
}

// issue writes a certificate and its new key; without a parent it signs itself.
func issue(l layout, certFile, keyFile string, cert, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	key, err := newKey(l.pki(keyFile))
	if err != nil {
		return nil, err
	}
	if parent == nil {
		parent, signer = cert, key
	}
	cert.SerialNumber = big.NewInt(time.Now().UnixNano())
	// An hour back, for the sake of clocks that are set while a test runs.
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(10, 0, 0)
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("create certificate %s: %w", certFile, err)
	}
	return key, writeFile(l.pki(certFile), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create key %s: %w", path, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key %s: %w", path, err)
	}
	return key, writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func newToken() string {
	var token [16]byte
	// The reader of crypto/rand never fails; it ends the program instead.
	_, _ = rand.Read(token[:])
	return hex.EncodeToString(token[:])
}

func readTokens(l layout) (map[string]string, error) {
	content, err := os.ReadFile(l.pki(fileTokens))
	if err != nil {
		return nil, err
	}
	tokens := map[string]string{}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Split(line, ","); len(fields) > 1 {
			tokens[fields[1]] = fields[0]
		}
	}
	return tokens, nil
}

func writeKubeconfig(l layout, id identity, token string, port int) error {
	ca, err := os.ReadFile(l.pki(fileCA))
	if err != nil {
		return err
	}
	const name = "devcluster"
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   fmt.Sprintf("https://127.0.0.1:%d", port),
			CertificateAuthorityData: ca,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{id.name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: id.name}},
		CurrentContext: name,
	}
	content, err := clientcmd.Write(config)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	path := l.config(id.name)
	if id.name == "admin" {
		path = l.kubeconfig()
	}
	return writeFile(path, content)
}

// writeFile replaces a file at once, so that nobody reads a half of it.
func writeFile(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
