package clouds

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Clouds are the services behind one proxy.
type Clouds struct {
	proxy    *http.Server
	services *http.Server
	address  string
	accepted *handed
	ca       *authority
	caFile   string

	mu     sync.Mutex
	hosts  map[string]http.Handler
	asked  []Request
	grants []Grant
	fronts []*http.Server
}

// Request is one that a service got.
type Request struct {
	Host, Method, Path, Authorization string
}

// Start starts the proxy; its files go into dir.
func Start(dir string) (*Clouds, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	c := &Clouds{ca: ca, caFile: filepath.Join(dir, "clouds.pem"), hosts: map[string]http.Handler{}}
	if err := os.WriteFile(c.caFile, ca.pem, 0o600); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.address = listener.Addr().String()
	c.accepted = &handed{connections: make(chan net.Conn), done: make(chan struct{}), addr: listener.Addr()}
	c.proxy = &http.Server{Handler: http.HandlerFunc(c.connect)}
	c.services = &http.Server{Handler: http.HandlerFunc(c.serve), TLSConfig: &tls.Config{GetCertificate: ca.certificate}}
	c.exchanges()
	go func() { _ = c.proxy.Serve(listener) }()
	go func() { _ = c.services.ServeTLS(c.accepted, "", "") }()
	return c, nil
}

// Close ends all of it.
func (c *Clouds) Close() error {
	c.mu.Lock()
	fronts := c.fronts
	c.mu.Unlock()
	failed := []error{c.proxy.Close(), c.services.Close()}
	for _, front := range fronts {
		failed = append(failed, front.Close())
	}
	return errors.Join(failed...)
}

// Env are the variables that lead a process here.
func (c *Clouds) Env() []string {
	proxy := "http://" + c.address
	return []string{"HTTPS_PROXY=" + proxy, "https_proxy=" + proxy, "HTTP_PROXY=" + proxy, "http_proxy=" + proxy, "NO_PROXY=", "no_proxy=",
		"SSL_CERT_FILE=" + c.caFile, "SSL_CERT_DIR=" + filepath.Dir(c.caFile), "AWS_CA_BUNDLE="}
}

// CA is the authority of the certificates, as PEM.
func (c *Clouds) CA() []byte { return c.ca.pem }

// Handle has a handler answer as a host.
func (c *Clouds) Handle(host string, h http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts[host] = h
}

// Asked are the requests so far to a host.
func (c *Clouds) Asked(host string) []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Request
	for _, r := range c.asked {
		if r.Host == host {
			out = append(out, r)
		}
	}
	return out
}

// Shown are the hosts that got a text in the header Authorization.
func (c *Clouds) Shown(text string) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	hosts := map[string]bool{}
	for _, r := range c.asked {
		if strings.Contains(r.Authorization, text) {
			hosts[r.Host] = true
		}
	}
	return hosts
}

// connect takes a connection that is meant for a host.
func (c *Clouds) connect(w http.ResponseWriter, r *http.Request) {
	host := r.URL.Hostname()
	c.mu.Lock()
	_, known := c.hosts[host]
	if r.Method != http.MethodConnect || !known {
		c.asked = append(c.asked, Request{Host: host, Method: r.Method, Path: r.URL.Path, Authorization: r.Header.Get("Authorization")})
	}
	c.mu.Unlock()
	if r.Method != http.MethodConnect || !known {
		http.Error(w, "there is no such host", http.StatusBadGateway)
		return
	}
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if _, err := fmt.Fprint(connection, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	c.accepted.hand(connection)
}

// serve answers as the host that was asked for.
func (c *Clouds) serve(w http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(r.Host, ":")
	authorization := r.Header.Get("Authorization")
	if username, password, ok := r.BasicAuth(); ok {
		authorization = username + ":" + password
	}
	c.mu.Lock()
	handler := c.hosts[host]
	c.asked = append(c.asked, Request{Host: host, Method: r.Method, Path: r.URL.Path, Authorization: authorization})
	c.mu.Unlock()
	if handler == nil {
		http.NotFound(w, r)
		return
	}
	handler.ServeHTTP(w, r)
}

// handed is a listener whose connections were taken by somebody else.
type handed struct {
	connections chan net.Conn
	done        chan struct{}
	once        sync.Once
	addr        net.Addr
}

func (h *handed) hand(connection net.Conn) {
	select {
	case h.connections <- connection:
	case <-h.done:
		_ = connection.Close()
	}
}

// Accept waits for a connection.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case connection := <-h.connections:
		return connection, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends the waiting.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr is that of the proxy.
func (h *handed) Addr() net.Addr { return h.addr }

// authority makes certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clouds"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{key: key, cert: cert, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// certificate makes one for the host that a client asks for, or for this machine where it names none.
func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	if hello.ServerName != "" {
		template.DNSNames = []string{hello.ServerName}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}, nil
}
