package clouds

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
)

// Git servers of the clouds.
const (
	AzureGit = "dev.azure.com"
	AWSGit   = "git-codecommit." + Region + ".amazonaws.com"
)

// ServeGit has Azure DevOps and AWS CodeCommit pass on to a repository what comes with credentials of theirs, and leads to a
// repository app there.
func (c *Clouds) ServeGit(repository string) error {
	behind, err := url.Parse(repository)
	if err != nil {
		return err
	}
	pass := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(behind)
		_, rest, _ := strings.Cut(p.In.URL.Path, "/app/")
		p.Out.URL.Path = behind.Path + "/" + rest
		p.Out.Header.Del("Authorization")
	}}
	guard := func(allowed func(*http.Request) error) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := allowed(r); err != nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			pass.ServeHTTP(w, r)
		})
	}
	c.Handle(AzureGit, guard(func(r *http.Request) error {
		g, known := c.Whose(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if !known || !strings.HasPrefix(g.Scope, "499b84ac-1321-427f-aa17-267ca6975798/.default") {
			return errors.New("no token for Azure DevOps")
		}
		return nil
	}))
	c.Handle(AWSGit, guard(c.signedForCodeCommit))
	return nil
}

// signedForCodeCommit checks the signature that AWS's own helper for Git makes: of the method GIT, the path and the host.
func (c *Clouds) signedForCodeCommit(r *http.Request) error {
	username, password, _ := r.BasicAuth()
	id, session, _ := strings.Cut(username, "%")
	at, signature, _ := strings.Cut(password, "Z")
	key, known := c.Whose(id)
	if !known || session != key.Session || len(at) != len("20060102T150405") {
		return errors.New("no key of AWS")
	}
	path, _, _ := strings.Cut(strings.TrimSuffix(r.URL.Path, "/git-upload-pack"), "/info/refs")
	day := at[:8]
	scope := day + "/" + Region + "/codecommit/aws4_request"
	canonical := sha256.Sum256([]byte("GIT\n" + path + "\n\nhost:" + AWSGit + "\n\nhost\n"))
	signing := []byte("AWS4" + key.Secret)
	for _, part := range []string{day, Region, "codecommit", "aws4_request", "AWS4-HMAC-SHA256\n" + at + "\n" + scope + "\n" + hex.EncodeToString(canonical[:])} {
		mac := hmac.New(sha256.New, signing)
		mac.Write([]byte(part))
		signing = mac.Sum(nil)
	}
	if hex.EncodeToString(signing) != signature {
		return errors.New("the signature is wrong")
	}
	return nil
}

// Names of the cluster that each cloud has.
const (
	EKS = "arn:aws:eks:" + Region + ":123456789012:cluster/far"
	AKS = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/group/providers/Microsoft.ContainerService/managedClusters/far"
	GKE = "projects/project/locations/europe-west2/clusters/far"
)

// ServeCluster has each cloud name the API server of a configuration as that of its cluster, behind an address that takes the tokens
// of that cloud.
func (c *Clouds) ServeCluster(config *rest.Config) error {
	address, err := c.front(config)
	if err != nil {
		return err
	}
	ca := base64.StdEncoding.EncodeToString(c.ca.pem)
	c.Handle("eks."+Region+".amazonaws.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := keyOf(r.Header.Get("Authorization")); r.URL.Path != "/clusters/far" || !c.knows(id) {
			http.Error(w, "{}", http.StatusForbidden)
			return
		}
		answer(w, map[string]any{"cluster": map[string]any{"name": "far", "endpoint": "https://" + address, "certificateAuthority": map[string]any{"data": ca}}})
	}))
	c.Handle("container.googleapis.com", c.bearer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/"+GKE {
			http.NotFound(w, r)
			return
		}
		answer(w, map[string]any{"endpoint": address, "masterAuth": map[string]any{"clusterCaCertificate": ca}})
	}))
	c.Handle("management.azure.com", c.bearer(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case AKS:
			answer(w, map[string]any{"properties": map[string]any{"aadProfile": map[string]any{}}})
		case AKS + "/listClusterUserCredential":
			kubeconfig := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: far\nclusters: [{name: far, cluster: {server: %q, certificate-authority-data: %s}}]\n"+
				"contexts: [{name: far, context: {cluster: far}}]\n", "https://"+address, ca)
			answer(w, map[string]any{"kubeconfigs": []any{map[string]any{"name": "far", "value": base64.StdEncoding.EncodeToString([]byte(kubeconfig))}}})
		default:
			http.NotFound(w, r)
		}
	}))
	return nil
}

func (c *Clouds) knows(token string) bool {
	_, known := c.Whose(token)
	return known
}

// keyOf is the id in a signature of AWS.
func keyOf(signature string) string {
	_, rest, _ := strings.Cut(signature, "Credential=")
	id, _, _ := strings.Cut(rest, "/")
	return id
}

// bearer lets pass what has a token that was granted.
func (c *Clouds) bearer(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.knows(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next(w, r)
	})
}

// front is an address of an API server that takes the tokens of the clouds.
func (c *Clouds) front(config *rest.Config) (string, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", err
	}
	behind, err := url.Parse(config.Host)
	if err != nil {
		return "", err
	}
	pass := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(behind)
		p.Out.Header.Del("Authorization")
	}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{TLSConfig: &tls.Config{GetCertificate: c.ca.certificate}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		c.mu.Lock()
		c.asked = append(c.asked, Request{Host: ClusterHost, Method: r.Method, Path: r.URL.Path, Authorization: token})
		c.mu.Unlock()
		if !c.knows(token) && !c.knows(presigned(token)) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		pass.ServeHTTP(w, r)
	})}
	c.mu.Lock()
	c.fronts = append(c.fronts, server)
	c.mu.Unlock()
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return listener.Addr().String(), nil
}

// ClusterHost is what requests to the cluster are told by.
const ClusterHost = "the cluster"

// presigned is the id of the key in a token for EKS: a signed request to ask who one is.
func presigned(token string) string {
	encoded, ok := strings.CutPrefix(token, "k8s-aws-v1.")
	if !ok {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	u, err := url.Parse(string(text))
	if err != nil || u.Host != AWSTokens || u.Query().Get("Action") != "GetCallerIdentity" {
		return ""
	}
	id, _, _ := strings.Cut(u.Query().Get("X-Amz-Credential"), "/")
	return id
}

// Identity is who a request to the cluster was made as; empty for nobody.
func (c *Clouds) Identity(token string) string {
	if g, known := c.Whose(token); known {
		return g.Identity
	}
	g, _ := c.Whose(presigned(token))
	return g.Identity
}
