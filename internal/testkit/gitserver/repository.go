package gitserver

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Change is one commit.
type Change struct {
	// Branch is the branch that the commit is added to; it is created when it does not exist.
	Branch string
	// Files are written, by path.
	Files map[string]string
	// Executable names those of Files that may be run.
	Executable []string
	// Links are written as symbolic links, by path.
	Links map[string]string
	// Submodules are commits of other repositories, by path. Where they are is up to a .gitmodules in Files.
	Submodules map[string]string
	// Delete names files and directories that go.
	Delete []string
	// Replace drops all that was there before, so that Files and Links are the whole tree.
	Replace bool
	// Message is the commit message.
	Message string
	// Seconds is the time of the commit, since 1970; now when empty.
	Seconds string
}

// CreateRepository makes an empty bare repository. Single commits may be fetched from it, as from the big forges.
func (s *Server) CreateRepository(repo string) error {
	dir := filepath.Join(s.dir, repo)
	if _, err := s.run("", nil, "init", "--quiet", "--bare", "--initial-branch=main", dir); err != nil {
		return fmt.Errorf("create repository %s: %w", repo, err)
	}
	if err := s.Configure(repo, "http.receivepack", "true"); err != nil {
		return err
	}
	return s.Configure(repo, "uploadpack.allowReachableSHA1InWant", "true")
}

// Configure sets a configuration value of a repository.
func (s *Server) Configure(repo, key, value string) error {
	if _, err := s.run(repo, nil, "config", key, value); err != nil {
		return fmt.Errorf("configure %s of repository %s: %w", key, repo, err)
	}
	return nil
}

// Commit adds a commit that writes files on top of what the branch has, and returns its hash.
func (s *Server) Commit(repo, branch string, files map[string]string, message string) (string, error) {
	return s.CommitChange(repo, Change{Branch: branch, Files: files, Message: message})
}

// CommitTree adds a commit whose whole tree is files, and returns its hash.
func (s *Server) CommitTree(repo, branch string, files map[string]string, message string) (string, error) {
	return s.CommitChange(repo, Change{Branch: branch, Files: files, Replace: true, Message: message})
}

// Delete adds a commit that removes files or directories, and returns its hash.
func (s *Server) Delete(repo, branch, message string, paths ...string) (string, error) {
	return s.CommitChange(repo, Change{Branch: branch, Delete: paths, Message: message})
}

// CommitChange adds a commit and returns its hash.
func (s *Server) CommitChange(repo string, c Change) (string, error) {
	s.repoMu.Lock()
	defer s.repoMu.Unlock()
	ref := "refs/heads/" + c.Branch
	_, err := s.run(repo, nil, "rev-parse", "--verify", "--quiet", ref)
	stream := c.stream(ref, err == nil)
	if _, err := s.run(repo, stream, "fast-import", "--quiet", "--force", "--date-format="+c.dateFormat()); err != nil {
		return "", fmt.Errorf("commit to %s of repository %s: %w", c.Branch, repo, err)
	}
	return s.resolve(repo, ref)
}

// Tag points a lightweight tag at a commit, moving it when it exists.
func (s *Server) Tag(repo, name, commit string) error {
	return s.tag(repo, "tag", "--force", name, commit)
}

// AnnotatedTag points a tag with a message at a commit, moving it when it exists.
func (s *Server) AnnotatedTag(repo, name, commit, message string) error {
	return s.tag(repo, "tag", "--force", "--annotate", "--message", message, name, commit)
}

// SetReference points a reference of any name at a commit, such as refs/pull/1/head.
func (s *Server) SetReference(repo, name, commit string) error {
	return s.tag(repo, "update-ref", name, commit)
}

// DeleteTag removes a tag.
func (s *Server) DeleteTag(repo, name string) error { return s.tag(repo, "tag", "--delete", name) }

// DeleteBranch removes a branch.
func (s *Server) DeleteBranch(repo, name string) error {
	return s.tag(repo, "update-ref", "-d", "refs/heads/"+name)
}

// Head is the commit that a branch points at.
func (s *Server) Head(repo, branch string) (string, error) {
	return s.resolve(repo, "refs/heads/"+branch)
}

func (s *Server) tag(repo string, args ...string) error {
	s.repoMu.Lock()
	defer s.repoMu.Unlock()
	if _, err := s.run(repo, nil, args...); err != nil {
		return fmt.Errorf("change references of repository %s: %w", repo, err)
	}
	return nil
}

func (s *Server) resolve(repo, ref string) (string, error) {
	out, err := s.run(repo, nil, "rev-parse", "--verify", ref)
	if err != nil {
		return "", fmt.Errorf("resolve %s of repository %s: %w", ref, repo, err)
	}
	return strings.TrimSpace(out), nil
}

// stream is the change in the input format of git fast-import.
func (c Change) stream(ref string, exists bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit %s\ncommitter holdfast <holdfast@example.com> %s\n", ref, c.date())
	data(&b, c.Message)
	if exists {
		fmt.Fprintf(&b, "from %s^0\n", ref)
	}
	if c.Replace {
		b.WriteString("deleteall\n")
	}
	for _, path := range c.Delete {
		fmt.Fprintf(&b, "D %s\n", quote(path))
	}
	for _, path := range slices.Sorted(maps.Keys(c.Files)) {
		mode := "100644"
		if slices.Contains(c.Executable, path) {
			mode = "100755"
		}
		fmt.Fprintf(&b, "M %s inline %s\n", mode, quote(path))
		data(&b, c.Files[path])
	}
	for _, path := range slices.Sorted(maps.Keys(c.Links)) {
		fmt.Fprintf(&b, "M 120000 inline %s\n", quote(path))
		data(&b, c.Links[path])
	}
	for _, path := range slices.Sorted(maps.Keys(c.Submodules)) {
		fmt.Fprintf(&b, "M 160000 %s %s\n", c.Submodules[path], quote(path))
	}
	b.WriteString("\n")
	return b.Bytes()
}

func (c Change) dateFormat() string {
	if c.Seconds == "" {
		return "now"
	}
	return "raw"
}

func (c Change) date() string {
	if c.Seconds == "" {
		return "now"
	}
	return c.Seconds + " +0000"
}

func data(b *bytes.Buffer, s string) { fmt.Fprintf(b, "data %d\n%s\n", len(s), s) }

// quote writes a path so that fast-import reads it back, whatever it holds.
func quote(path string) string {
	if strings.ContainsAny(path, "\"\n\\") {
		return strconv.Quote(path)
	}
	return path
}

func (s *Server) run(repo string, stdin []byte, args ...string) (string, error) {
	cmd := exec.Command(s.git, args...)
	cmd.Dir = filepath.Join(s.dir, repo)
	cmd.Env = gitEnv(s.dir)
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// gitEnv keeps the configuration of the machine and its user away from the repositories.
func gitEnv(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_AUTHOR_NAME=holdfast", "GIT_AUTHOR_EMAIL=holdfast@example.com",
		"GIT_COMMITTER_NAME=holdfast", "GIT_COMMITTER_EMAIL=holdfast@example.com",
	}
}
