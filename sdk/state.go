package sdk

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"orcas/internal/checksum"
)

// A state file describes a transfer that has begun, so that a later call can continue it, also after a crash. It is a
// JSON document without credentials:
//
//	{
//	  "version": 1, "kind": "upload",
//	  "endpoint": "https://s3.example.com", "bucket": "photos", "key": "2026/a.jpg",
//	  "upload_id": "…", "options": "…", "part_size": 8388608, "algorithm": "CRC64NVME",
//	  "source": {"path": "/home/me/a.jpg", "size": 123456789, "modified": "2026-03-01T12:00:00.123456789Z", "file": "2049:131"},
//	  "parts": [{"number": 1, "etag": "…", "sum": "…"}]
//	}
//
// A download has "etag", "version_id" and "size" of the object instead of the upload ID and the source, "temp", the name
// of the file beside the target that holds what has arrived, and a part for each range that is on the drive.
//
// What the file claims is only ever used to save work. The server's list of parts decides what an upload has sent, and
// the ranges of a download are read and verified again. So a file that is older than the transfer costs time, never
// correctness.
type transferState struct {
	Version  int    `json:"version"`
	Kind     string `json:"kind"` // stateUpload or stateDownload
	Endpoint string `json:"endpoint"`
	Bucket   string `json:"bucket"`
	Key      string `json:"key"`

	PartSize  int64       `json:"part_size"`
	Algorithm string      `json:"algorithm,omitempty"` // of the sums of the parts; "" for MD5 ETags
	Parts     []statePart `json:"parts"`

	UploadID string          `json:"upload_id,omitempty"`
	Options  string          `json:"options,omitempty"` // hash of the properties that the upload was created with
	Source   *sourceIdentity `json:"source,omitempty"`

	VersionID string `json:"version_id,omitempty"`
	ETag      string `json:"etag,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Temp      string `json:"temp,omitempty"`
}

// statePart is a part that the server has, or a range that is on the drive.
type statePart struct {
	Number int    `json:"number"`
	ETag   string `json:"etag,omitempty"`
	Sum    string `json:"sum,omitempty"` // in Base64
}

// sourceIdentity identifies a file, to find out whether it is still the one that an upload began with. A source without a
// path, such as a reader, has only a size, so all of it is read again.
type sourceIdentity struct {
	Path     string    `json:"path,omitempty"`
	Size     int64     `json:"size"` // bytes; -1 for a reader that does not know it
	Modified time.Time `json:"modified,omitzero"`
	File     string    `json:"file,omitempty"` // device and inode, where the system has them
}

const (
	stateVersion  = 1
	stateUpload   = "upload"
	stateDownload = "download"

	// stateMax is the size of the largest state file that is read, in bytes. 10,000 parts take about 1 MiB.
	stateMax = 8 << 20

	// stateInterval is how often a transfer in progress writes its state. What happens in between is found out again.
	stateInterval = time.Second
)

// ErrState reports that a state file is not one, or describes another transfer. The file is left as it is.
var ErrState = errors.New("sdk: not the state of this transfer")

// parseState reads a state file.
func parseState(text []byte) (*transferState, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var s transferState
	if err := d.Decode(&s); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text follows the document")
	}
	return &s, s.check()
}

// check returns an error if a field has a value that no transfer writes.
func (s *transferState) check() error {
	a, known := checksum.Parse(s.Algorithm)
	switch {
	case s.Version != stateVersion:
		return fmt.Errorf("version %d, not %d", s.Version, stateVersion)
	case s.Kind != stateUpload && s.Kind != stateDownload:
		return fmt.Errorf("kind %q", s.Kind)
	case s.Endpoint == "" || s.Bucket == "" || s.Key == "":
		return errors.New("no endpoint, bucket or key")
	case s.PartSize < 1 || s.PartSize > partSizeMax:
		return fmt.Errorf("part size %d", s.PartSize)
	case s.Algorithm != "" && !known:
		return fmt.Errorf("algorithm %q", s.Algorithm)
	case s.Kind == stateUpload && (s.UploadID == "" || s.Source == nil || s.Source.Size < -1):
		return errors.New("no upload ID or source")
	case s.Kind == stateDownload && (s.ETag == "" || s.Size < 0 || s.Temp == "" || s.Temp != filepath.Base(s.Temp) || s.Temp == "." || s.Temp == ".."):
		return errors.New("no ETag, size or name of the temporary file")
	}
	limit := partsMax
	if s.Kind == stateDownload {
		limit = int(min((s.Size+s.PartSize-1)/s.PartSize, stateMax))
	}
	for i, p := range s.Parts {
		if p.Number < 1 || p.Number > limit || i > 0 && p.Number <= s.Parts[i-1].Number {
			return fmt.Errorf("part %d", p.Number)
		}
		if p.Sum == "" {
			continue
		}
		if _, err := checksum.Decode(a, p.Sum); err != nil {
			return fmt.Errorf("part %d: sum %q", p.Number, p.Sum)
		}
	}
	return nil
}

// part returns the record of a part, or nil.
func (s *transferState) part(number int) *statePart {
	i, found := slices.BinarySearchFunc(s.Parts, number, func(p statePart, n int) int { return p.Number - n })
	if !found {
		return nil
	}
	return &s.Parts[i]
}

// add records a part.
func (s *transferState) add(p statePart) {
	i, found := slices.BinarySearchFunc(s.Parts, p.Number, func(p statePart, n int) int { return p.Number - n })
	if found {
		s.Parts[i] = p
		return
	}
	s.Parts = slices.Insert(s.Parts, i, p)
}

// loadState reads the state of a transfer. It returns nil if the file does not exist or is empty, and ErrState if it is
// not a state file or describes another transfer than want.
func loadState(path string, want *transferState) (*transferState, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sdk: cannot read the state file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, stateMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("sdk: cannot read the state file: %w", err)
	case len(text) == 0:
		return nil, nil
	case len(text) > stateMax:
		err = fmt.Errorf("longer than %d bytes", stateMax)
	}
	var s *transferState
	if err == nil {
		s, err = parseState(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s is not a state file (%v); remove it, or use another name", ErrState, path, err)
	}
	if s.Kind != want.Kind || s.Endpoint != want.Endpoint || s.Bucket != want.Bucket || s.Key != want.Key {
		return nil, fmt.Errorf("%w: %s belongs to the %s of %s/%s at %s; remove it, or use another name", ErrState, path, s.Kind, s.Bucket, s.Key, s.Endpoint)
	}
	return s, nil
}

// save replaces the state file: it writes a new file, syncs it, and renames it. So a crash leaves the old state or the
// new one.
func (s *transferState) save(path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, tempName())
	if err := writeSynced(temp, append(text, '\n')); err != nil {
		_ = os.Remove(temp) // the first error counts
		return fmt.Errorf("sdk: cannot write the state file: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("sdk: cannot write the state file: %w", err)
	}
	return syncDir(dir)
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// tempName returns a new name for a file beside the one that it will replace.
func tempName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return ".orcas-" + hex.EncodeToString(b[:])
}

// identify returns the identity of an open file.
func identify(f *os.File) (sourceIdentity, error) {
	info, err := f.Stat()
	if err != nil {
		return sourceIdentity{}, err
	}
	id := sourceIdentity{Path: f.Name(), Size: info.Size(), Modified: info.ModTime().UTC(), File: fileNumber(info)}
	if abs, err := filepath.Abs(id.Path); err == nil {
		id.Path = abs
	}
	return id, nil
}

// same reports whether two identities are those of the same, unchanged file.
func (i sourceIdentity) same(o sourceIdentity) bool {
	return i.Path != "" && i.Path == o.Path && i.Size == o.Size && i.Modified.Equal(o.Modified) && i.File == o.File
}
