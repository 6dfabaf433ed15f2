package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
)

// minFree is the least free disk space to start with: etcd preallocates its
// log in pieces of 64 MiB and ends in the middle of something if it can't.
const minFree = 256 << 20

// layout is the directory of a cluster; see each method for what is there.
type layout struct{ dir string }

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

func (l layout) kubeconfig() string            { return l.path("kubeconfig") }
func (l layout) lock() string                  { return l.path("lock") }
func (l layout) port() string                  { return l.path("port") }
func (l layout) etcd() string                  { return l.path("etcd") }
func (l layout) kubelet() string               { return l.path("kubelet") }
func (l layout) tmp() string                   { return l.path("tmp") }
func (l layout) pki(name string) string        { return l.path("pki", name) }
func (l layout) log(component string) string   { return l.path(component + ".log") }
func (l layout) pid(component string) string   { return l.path(component + ".pid") }
func (l layout) config(identity string) string { return l.path("pki", identity+".kubeconfig") }

// open creates the directory and takes possession of it until the process and
// all its children are gone.
func open(dir string) (layout, *os.File, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, nil, fmt.Errorf("find directory %s: %w", dir, err)
	}
	l := layout{dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return l, nil, unusable(dir, err)
	}
	lock, err := takeLock(l.lock())
	if err != nil {
		return l, nil, err
	}
	if err := l.prepare(); err != nil {
		return l, nil, errors.Join(err, lock.Close())
	}
	return l, lock, nil
}

func (l layout) prepare() error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(l.dir, &fs); err != nil {
		return unusable(l.dir, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < minFree {
		return fmt.Errorf("only %d MiB are free on the disk of %s, a cluster needs %d: free some space or choose another directory with --dir",
			free>>20, l.dir, minFree>>20)
	}
	// The simulated containers of an earlier run are gone, and so is the use
	// of their volumes.
	stale := []string{l.kubelet(), l.tmp()}
	for _, component := range contract.Components {
		stale = append(stale, l.pid(component)) // its number may be another's by now
	}
	for _, stale := range stale {
		if err := os.RemoveAll(stale); err != nil {
			return unusable(l.dir, err)
		}
	}
	for _, dir := range []string{l.kubelet(), l.tmp(), l.etcd(), l.path("pki")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return unusable(l.dir, err)
		}
	}
	return nil
}

// unusable says in one line why the directory can't be used; the error of the
// operating system names the path that failed.
func unusable(dir string, err error) error {
	return fmt.Errorf("can't use directory %s: %w: choose a directory that can be written to with --dir", dir, err)
}

// lockPatience is how long the processes of a cluster that was killed may
// take to notice.
const lockPatience = 3 * time.Second

func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unusable(filepath.Dir(path), err)
	}
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(20 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			return nil, errors.Join(lockError(path, err), f.Close())
		}
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintf("%d\n", os.Getpid()))); err != nil {
		return nil, errors.Join(unusable(filepath.Dir(path), err), f.Close())
	}
	return f, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

func lockError(path string, err error) error {
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return unusable(filepath.Dir(path), err)
	}
	owner := "another process"
	// Only for the message: without the number it still says what is wrong.
	if pid, readErr := os.ReadFile(path); readErr == nil && len(pid) > 0 {
		owner = "process " + strings.TrimSpace(string(pid))
	}
	return fmt.Errorf("directory %s is used by a running devcluster (%s): stop that one or choose another directory with --dir",
		filepath.Dir(path), owner)
}
