package server

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"orcas/internal/durable"
)

// credentialsFile is kept in the data directory, readable by its owner alone.
const credentialsFile = "root-credentials.json"

// Credentials are the root's.
type Credentials struct {
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`

	made bool   // at this start
	from string // for people: where they come from
}

// rootCredentials returns those of the environment, else those of the data directory, else makes some and keeps them there.
func rootCredentials(s *Settings, dir string) (Credentials, error) {
	if s.AccessKey != "" {
		return Credentials{AccessKey: s.AccessKey, SecretKey: s.SecretKey, from: "the environment"}, nil
	}
	path := filepath.Join(dir, credentialsFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeCredentials(path)
	}
	if err != nil {
		return Credentials{}, err
	}
	c := Credentials{from: path}
	// The cause may quote the file, so it is left out.
	if json.Unmarshal(data, &c) != nil || len(c.AccessKey) < minAccessKey || len(c.SecretKey) < minSecretKey {
		return Credentials{}, fmt.Errorf("%s does not hold credentials: mend it, or remove it to have new ones made", path)
	}
	return c, nil
}

func makeCredentials(path string) (Credentials, error) {
	// rand.Text gives 26 characters of 5 bits each.
	c := Credentials{AccessKey: rand.Text()[:20], SecretKey: rand.Text() + rand.Text()[:14], made: true, from: path}
	data, err := json.MarshalIndent(&c, "", "  ")
	if err != nil {
		return Credentials{}, err
	}
	var steps durable.Steps
	return c, steps.Replace(path, append(data, '\n'))
}
