package artifact

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	modeFile       = 0o644
	modeExecutable = 0o755
)

// writeArchive writes files as a tar.gz that depends on nothing but their paths and contents. It fails when a file
// yields more or fewer bytes than its size says, so that a source that ends early is never archived as if complete.
func writeArchive(ctx context.Context, w io.Writer, files []File) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("archive %s: %w", f.Path, err)
		}
		if err := writeFile(archive, f); err != nil {
			return fmt.Errorf("archive %s: %w", f.Path, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("finish archive: %w", err)
	}
	if err := zipped.Close(); err != nil {
		return fmt.Errorf("finish archive: %w", err)
	}
	return nil
}

func writeFile(archive *tar.Writer, f File) (err error) {
	mode := int64(modeFile)
	if f.Executable {
		mode = modeExecutable
	}
	// Owner and times stay zero: they say nothing about the source and would change the digest.
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Size: f.Size, Mode: mode}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if _, err := io.Copy(archive, content); err != nil {
		return err
	}
	return archive.Flush()
}
