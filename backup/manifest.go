package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"orcas/core"
)

// format is the version of the layout of a backup directory.
const format = 1

// Format is the version of the layout that this program writes.
const Format = format

// nameLayout is the format of the name of a backup, which is its time in UTC. Names sort by time.
const nameLayout = "20060102T150405.000Z"

// manifest lists the parts of a backup. Its JSON has one block per line, so that manifests can be compared with diff.
// Its last line has the XXH3-64 of all bytes before the comma that precedes that line:
//
//	{
//	"format": 1,
//	"store": "0123456789abcdef",
//	"seq": 1234,
//	"time": "2026-01-02T03:04:05.678Z",
//	"files": [
//	{"name":"STORE","data":"b3JjYXM..."}
//	],
//	"blocks": [
//	{"block":"0123456789abcdef0000000100000001","kind":"packed","name":"blocks/00000001/00000/00000001.packed","length":67108864,"sum":"0123456789abcdef"}
//	],
//	"sum": "0123456789abcdef"
//	}
//
// The sum of a block is the XXH3-64 of its first length bytes. If it has damage, the block was already damaged in the
// store when it was copied. Damaged snapshots that are not needed were left by a crash, or are older than an intact one.
type manifest struct {
	Format int         `json:"format"`
	Store  string      `json:"store"`
	Seq    core.Seq    `json:"seq"`
	Time   time.Time   `json:"time"`
	Files  []smallFile `json:"files"`
	Blocks []*entry    `json:"blocks"`
}

// smallFile is a file of the data directory other than a block.
type smallFile struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// entry is a block in a backup.
type entry struct {
	Block   string   `json:"block"`
	Kind    string   `json:"kind"`
	Name    string   `json:"name"` // the slash-separated path of the file within the backup directory
	Length  int64    `json:"length"`
	Sum     string   `json:"sum"`
	Damaged []string `json:"damaged,omitempty"`
	Needed  bool     `json:"needed,omitempty"` // a damaged snapshot that covers records which no block has
}

var kindNames = map[core.BlockKind]string{core.Packed: "packed", core.Large: "large", core.Snapshot: "snapshot"}

// storeName formats the number of a store.
func storeName(number uint64) string { return fmt.Sprintf("%016x", number) }

func sumText(h *xxh3.Hasher) string { return fmt.Sprintf("%016x", h.Sum64()) }

// name returns the name of the backup.
func (m *manifest) name() string { return m.Time.UTC().Format(nameLayout) }

const lastLine = ",\n\"sum\": \"%016x\"\n}\n"

func (m *manifest) encode() ([]byte, error) {
	var b bytes.Buffer
	var failed error
	put := func(v any) {
		text, err := json.Marshal(v)
		failed = errors.Join(failed, err)
		b.Write(text)
	}
	array := func(name string, n int, at func(i int) any) {
		fmt.Fprintf(&b, ",\n%q: [\n", name)
		for i := range n {
			put(at(i))
			if i < n-1 {
				b.WriteByte(',')
			}
			b.WriteByte('\n')
		}
		b.WriteByte(']')
	}
	fmt.Fprintf(&b, "{\n\"format\": %d,\n\"store\": %q,\n\"seq\": %d,\n\"time\": ", m.Format, m.Store, m.Seq)
	put(m.Time)
	array("files", len(m.Files), func(i int) any { return &m.Files[i] })
	array("blocks", len(m.Blocks), func(i int) any { return m.Blocks[i] })
	fmt.Fprintf(&b, lastLine, xxh3.Hash(b.Bytes()))
	return b.Bytes(), failed
}

// decodeManifest is the inverse of encode. It returns Damaged for an invalid manifest, and Unsupported for a newer
// format.
func decodeManifest(b []byte) (*manifest, error) {
	const op = "backup.manifest"
	n := len(b) - len(fmt.Sprintf(lastLine, 0))
	if n < 0 || fmt.Sprintf(lastLine, xxh3.Hash(b[:n])) != string(b[n:]) {
		return nil, core.E(op, core.Damaged, errors.New("the checksum of the manifest does not match"))
	}
	var m manifest
	err := json.Unmarshal(b, &m)
	if m.Format > format {
		return nil, core.E(op, core.Unsupported, fmt.Errorf("the manifest has format %d, but this program supports only up to format %d", m.Format, format))
	}
	for _, f := range m.Files {
		if f.Name != filepath.Base(f.Name) || !filepath.IsLocal(f.Name) {
			err = errors.Join(err, fmt.Errorf("%q is not a file name", f.Name))
		}
	}
	for i := range m.Blocks {
		e := m.Blocks[i]
		if e == nil {
			return nil, core.E(op, core.Damaged, errors.New("the manifest has a null entry in its list of blocks"))
		}
		if !filepath.IsLocal(filepath.FromSlash(e.Name)) || !strings.HasPrefix(e.Name, blocksDir+"/") || e.Length < 0 {
			err = errors.Join(err, fmt.Errorf("%q with %d bytes is not a valid block", e.Name, e.Length))
		}
	}
	if err != nil {
		return nil, core.E(op, core.Damaged, err)
	}
	return &m, nil
}
