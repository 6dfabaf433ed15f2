package gitserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"
)

// sshdPath is where Debian's openssh-server puts it; sshd wants to be started by its full path.
const sshdPath = "/usr/sbin/sshd"

// SSHD is OpenSSH's server in front of the repositories of a Server, run as the current user on a port of loopback.
type SSHD struct {
	// Identity is the private key that may log in, and Public its other half.
	Identity, Public []byte
	// KnownHosts is what a client must know of the server.
	KnownHosts []byte

	addr    string
	user    string
	root    string
	dir     string
	command *exec.Cmd
	log     bytes.Buffer
}

// StartSSH starts sshd with fresh keys, which are kept in dir.
func (s *Server) StartSSH(dir string) (*SSHD, error) {
	if _, err := os.Stat(sshdPath); err != nil {
		return nil, fmt.Errorf("find sshd: %w; install openssh-server, as with `apt-get install openssh-server`", err)
	}
	account, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("find the current user: %w", err)
	}
	if os.Getuid() == 0 {
		// Privilege separation wants this one as root; a service manager would make it.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return nil, fmt.Errorf("create the directory for privilege separation: %w", err)
		}
	}
	d := &SSHD{user: account.Username, root: s.dir, dir: dir}
	if err := d.keys(); err != nil {
		return nil, err
	}
	if err := d.start(); err != nil {
		return nil, err
	}
	return d, nil
}

// keys makes a key for the host and one for the client.
func (d *SSHD) keys() (err error) {
	for _, name := range []string{"host", "client"} {
		if err := keygen(filepath.Join(d.dir, name), "ed25519", ""); err != nil {
			return err
		}
	}
	if d.Identity, err = os.ReadFile(filepath.Join(d.dir, "client")); err != nil {
		return fmt.Errorf("read the client's key: %w", err)
	}
	if d.Public, err = os.ReadFile(filepath.Join(d.dir, "client.pub")); err != nil {
		return fmt.Errorf("read the client's key: %w", err)
	}
	return nil
}

// keygen makes a key pair at a path, with a passphrase unless that is empty.
func keygen(path, kind, passphrase string) error {
	out, err := exec.Command("ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make SSH key %s: %w: %s", path, err, out)
	}
	return nil
}

// Encrypted is the client's key, encrypted with a passphrase.
func (d *SSHD) Encrypted(passphrase string) ([]byte, error) {
	path := filepath.Join(d.dir, "encrypted")
	if err := os.WriteFile(path, d.Identity, 0o600); err != nil {
		return nil, fmt.Errorf("write key: %w", err)
	}
	if out, err := exec.Command("ssh-keygen", "-q", "-p", "-P", "", "-N", passphrase, "-f", path).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("encrypt SSH key: %w: %s", err, out)
	}
	encrypted, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the encrypted key: %w", err)
	}
	return encrypted, nil
}

// start runs sshd on a free port. Another process may take the port in between, so that it is tried a few times.
func (d *SSHD) start() error {
	const attempts = 5
	var err error
	for range attempts {
		if err = d.try(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("start sshd: %w: %s", err, strings.TrimSpace(d.log.String()))
}

func (d *SSHD) try() error {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d.addr = probe.Addr().String()
	if err := probe.Close(); err != nil {
		return err
	}
	if err := d.configure(); err != nil {
		return err
	}
	d.command = exec.Command(sshdPath, "-D", "-e", "-f", filepath.Join(d.dir, "sshd_config"))
	d.command.Stderr = &d.log
	if err := d.command.Start(); err != nil {
		return err
	}
	return d.await()
}

func (d *SSHD) configure() error {
	host, port, err := net.SplitHostPort(d.addr)
	if err != nil {
		return err
	}
	lines := []string{
		"ListenAddress " + host, "Port " + port, "HostKey " + filepath.Join(d.dir, "host"),
		"AuthorizedKeysFile " + filepath.Join(d.dir, "client.pub"), "PidFile none", "UsePAM no", "StrictModes no",
		"PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password", "LogLevel ERROR", "",
	}
	if err := os.WriteFile(filepath.Join(d.dir, "sshd_config"), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		return err
	}
	hostKey, err := os.ReadFile(filepath.Join(d.dir, "host.pub"))
	if err != nil {
		return err
	}
	d.KnownHosts = fmt.Appendf(nil, "[%s]:%s %s", host, port, hostKey)
	return nil
}

// await waits until the server says which protocol it speaks.
func (d *SSHD) await() error {
	ended := make(chan error, 1)
	go func() { ended <- d.command.Wait() }()
	for {
		select {
		case err := <-ended:
			return errors.Join(errors.New("it ended"), err)
		case <-time.After(10 * time.Millisecond):
		}
		conn, err := net.DialTimeout("tcp", d.addr, time.Second)
		if err != nil {
			continue // it does not listen yet, or it ended
		}
		banner := make([]byte, len("SSH-2.0"))
		_, err = io.ReadFull(conn, banner)
		if err := errors.Join(err, conn.Close()); err == nil && string(banner) == "SSH-2.0" {
			return nil
		}
	}
}

// Close ends the server.
func (d *SSHD) Close() error { return d.command.Process.Kill() }

// Addr is the address that it listens on.
func (d *SSHD) Addr() string { return d.addr }

// URL is the address of a repository.
func (d *SSHD) URL(repo string) string {
	u := url.URL{Scheme: "ssh", User: url.User(d.user), Host: d.addr, Path: filepath.Join(d.root, repo)}
	return u.String()
}
