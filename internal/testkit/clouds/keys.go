package clouds

import (
	"encoding/json"
	"net/http"
	"strings"
)

// The keys of the key services.
const (
	AWSKMSKey   = "arn:aws:kms:" + Region + ":123456789012:key/00000000-0000-0000-0000-000000000000"
	AzureVault  = "https://keys.vault.azure.net"
	AzureKey    = "key"
	AzureKeyVer = "1"
	GCPKMSKey   = "projects/project/locations/global/keyRings/ring/cryptoKeys/key"
)

// ServeKeys has each cloud open what is encrypted with its key, which is nothing but encoded, for whoever it gave credentials to.
func (c *Clouds) ServeKeys() {
	c.Handle("kms."+Region+".amazonaws.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ CiphertextBlob string }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.Header.Get("X-Amz-Target") != "TrentService.Decrypt" || !c.knows(keyOf(r.Header.Get("Authorization"))) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		answer(w, map[string]any{"Plaintext": request.CiphertextBlob})
	}))
	c.Handle(strings.TrimPrefix(AzureVault, "https://"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g, known := c.Whose(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); !known || !strings.HasPrefix(g.Scope, "https://vault.azure.net/.default") {
			// Clients ask first without a token, to learn for whom it has to be.
			w.Header().Set("WWW-Authenticate", `Bearer authorization="https://`+AzureLogin+`/tenant", resource="https://vault.azure.net"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var request struct {
			Value string `json:"value"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.URL.Path != "/keys/"+AzureKey+"/"+AzureKeyVer+"/decrypt" {
			http.NotFound(w, r)
			return
		}
		answer(w, map[string]any{"kid": AzureVault + "/keys/" + AzureKey + "/" + AzureKeyVer, "value": request.Value})
	}))
	c.Handle("cloudkms.googleapis.com", c.bearer(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Ciphertext string `json:"ciphertext"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.URL.Path != "/v1/"+GCPKMSKey+":decrypt" {
			http.NotFound(w, r)
			return
		}
		answer(w, map[string]any{"plaintext": request.Ciphertext})
	}))
}
