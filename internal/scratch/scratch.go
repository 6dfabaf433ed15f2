// Package scratch gives a process a directory for its temporary files, and removes those of processes that are gone.
//
// A process that is killed can't clean up after itself, and on a machine that stays what it leaves adds up. The owner of a
// directory holds a lock on a file beside it, which the kernel releases however the process ends. A process id would not do:
// it may be another one's by now, or one of another container with the same files.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// prefix begins the names of the directories, and suffix ends those of their locks.
const (
	prefix = "holdfast-run-"
	suffix = ".lock"
)

// Open removes what dead processes left in the directory and makes a new one in it for this process. Close removes it.
func Open(base string) (dir string, closeDir func() error, err error) {
	if err := sweep(base); err != nil {
		return "", nil, err
	}
	lock, err := newLock(base)
	if err != nil {
		return "", nil, err
	}
	dir = strings.TrimSuffix(lock.Name(), suffix)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, errors.Join(fmt.Errorf("make a directory for temporary files: %w", err), lock.Close())
	}
	return dir, func() error {
		return errors.Join(os.RemoveAll(dir), os.Remove(lock.Name()), lock.Close())
	}, nil
}

// newLock makes a file and locks it. Another process that sweeps in between may have removed it; then it is made again.
func newLock(base string) (*os.File, error) {
	for {
		file, err := os.CreateTemp(base, prefix+"*"+suffix)
		if err != nil {
			return nil, fmt.Errorf("make a lock for temporary files: %w", err)
		}
		if tryLock(file) && isStillThere(file) {
			return file, nil
		}
		if err := file.Close(); err != nil {
			return nil, fmt.Errorf("close a lock: %w", err)
		}
	}
}

// sweep removes the directories that nobody holds the lock of.
func sweep(base string) error {
	locks, err := filepath.Glob(filepath.Join(base, prefix+"*"+suffix))
	if err != nil {
		return fmt.Errorf("look for temporary files of processes that are gone: %w", err)
	}
	for _, name := range locks {
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue // it went meanwhile, or belongs to another user
		}
		if tryLock(file) {
			// What can't be removed is tried again by the next process, as long as the lock is there.
			if os.RemoveAll(strings.TrimSuffix(name, suffix)) == nil {
				_ = os.Remove(name)
			}
		}
		_ = file.Close() // it was only locked
	}
	return nil
}

func tryLock(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// isStillThere tells whether the name still stands for the file.
func isStillThere(file *os.File) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(file.Name())
	return err == nil && os.SameFile(held, named)
}
