package server

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"orcas/internal/datadir"
	"orcas/internal/durable"
)

// CredentialsFile is the name of the file with the generated root credentials, in the data directory. Only its owner
// may have access to it.
const CredentialsFile = datadir.CredentialsFile

// maxCredentials is the maximum size of CredentialsFile, in bytes.
const maxCredentials = 64 << 10

// Credentials are the root credentials.
type Credentials struct {
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`

	made     bool     // generated at this start
	from     string   // description of their source, for the banner
	warnings []string // to be logged
}

// rootCredentials returns the credentials from the environment or, if it has none, from the data directory. If that has
// none either, it generates credentials and stores them there. Used is true if the store existed before this start.
func rootCredentials(s *Settings, dir string, used bool) (Credentials, error) {
	path := filepath.Join(dir, CredentialsFile)
	shared := checkSharedDirectory(dir)
	stored, err := readCredentials(path)
	if s.AccessKey != "" {
		c := Credentials{AccessKey: s.AccessKey, SecretKey: s.SecretKey, from: "the environment"}
		if err == nil && (stored.AccessKey != c.AccessKey || stored.SecretKey != c.SecretKey) {
			c.warnings = append(c.warnings, fmt.Sprintf("the root credentials come from the environment; those in %s are different, "+
				"and are not valid now: remove that file, unless you want to use them again", path))
		}
		if shared != nil {
			c.warnings = append(c.warnings, shared.Error())
		}
		return c, nil
	}
	if shared != nil {
		return Credentials{}, shared
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return stored, err
	}
	c, err := makeCredentials(path)
	if used {
		c.warnings = append(c.warnings, fmt.Sprintf("this store was used with other root credentials before, which are not valid now: "+
			"new ones were generated and saved in %s; to use the previous ones again, set ORCAS_ROOT_ACCESS_KEY and "+
			"ORCAS_ROOT_SECRET_KEY to them and remove that file", path))
	}
	return c, err
}

// readCredentials reads a file of credentials. Its errors never contain the content of the file.
func readCredentials(path string) (Credentials, error) {
	data, err := readPrivate(path, maxCredentials)
	if err != nil {
		return Credentials{}, err
	}
	c := Credentials{from: path}
	if json.Unmarshal(data, &c) != nil || len(c.AccessKey) < minAccessKey || len(c.SecretKey) < minSecretKey {
		return Credentials{}, fmt.Errorf("%s does not contain valid credentials: repair it, or remove it so that the server generates new ones", path)
	}
	return c, nil
}

func makeCredentials(path string) (Credentials, error) {
	// rand.Text returns 26 characters of 5 bits each.
	c := Credentials{AccessKey: rand.Text()[:20], SecretKey: rand.Text() + rand.Text()[:14], made: true, from: path}
	data, err := json.MarshalIndent(&c, "", "  ")
	if err != nil {
		return Credentials{}, err
	}
	var steps durable.Steps
	return c, steps.Replace(path, append(data, '\n'))
}

// readPrivate reads a file of secrets of at most limit bytes. It refuses a file that another user may read or may have
// written.
func readPrivate(path string, limit int64) ([]byte, error) {
	return readGuarded(path, limit, onlyOwner)
}

// onlyOwner are the permissions that a private file must not give.
const onlyOwner fs.FileMode = 0o077

// readGuarded is like readPrivate, for a file that must not give some permissions.
func readGuarded(path string, limit int64, forbidden fs.FileMode) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not wait for a writer if path is a named pipe
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkGuarded(path, info, os.Geteuid(), forbidden); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return text, err
}

// maxTokenFile is the maximum size of a file with a token, in bytes.
const maxTokenFile = 16 << 10

// readToken reads a file with a token of at least the given number of characters. The file may be readable for its
// group, since that is how Kubernetes mounts secrets, and how root lends a file to a service.
func readToken(path string, least int) (string, error) {
	const groupMayRead fs.FileMode = 0o037
	text, err := readGuarded(path, maxTokenFile, groupMayRead)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < least || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: expected a token of at least %s", path, plural(least, "1 visible ASCII character", "%d visible ASCII characters"))
	}
	return token, nil
}

// checkPrivate refuses a file that is not regular, belongs to a user other than uid and root, or is accessible to
// others.
func checkPrivate(path string, info fs.FileInfo, uid int) error {
	return checkGuarded(path, info, uid, onlyOwner)
}

// checkGuarded is like checkPrivate, for a file that must not give some permissions.
func checkGuarded(path string, info fs.FileInfo, uid int, forbidden fs.FileMode) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if owner, known := ownerOf(info); known && owner != uid && owner != 0 {
		return fmt.Errorf("%s belongs to user %d, who may have changed it, but the server runs as user %d: "+
			"check its content, then run chown %d %s", path, owner, uid, uid, shellQuote(path))
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return fmt.Errorf("%s has mode %04o, so users other than its owner can read or change it: run chmod %o %s",
			path, mode, 0o660&^forbidden, shellQuote(path))
	}
	return nil
}

// checkSharedDirectory refuses a directory for credentials if every user can replace files in it.
func checkSharedDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o002 != 0 {
		return fmt.Errorf("%s has mode %04o, so every user of this machine can replace the files in it: run chmod o-w %s",
			dir, mode, shellQuote(dir))
	}
	return nil
}
