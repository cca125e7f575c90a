package memlimit

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const (
	mountV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
		"33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)

// TestRead: the lowest limit of the control group and of those above it counts.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		group, mounts string
		files         map[string]string
		want          int64
	}{
		"no limit": {"0::/a\n", mountV2, map[string]string{"sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"v2":       {"0::/a/b\n", mountV2, map[string]string{"sys/fs/cgroup/a/b/memory.max": "268435456\n"}, 256 << 20},
		"v2 above": {"0::/a/b\n", mountV2, map[string]string{
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1000\n",
		}, 1000},
		"v2 lower below": {"0::/a/b\n", mountV2, map[string]string{
			"sys/fs/cgroup/a/b/memory.max": "500\n", "sys/fs/cgroup/a/memory.max": "1000\n",
		}, 500},
		"v2 in a namespace": {"0::/\n", mountV2, map[string]string{"sys/fs/cgroup/memory.max": "700\n"}, 700},
		"v2 outside of the mount": {
			"0::/../other\n", mountV2, map[string]string{"sys/fs/cgroup/memory.max": "700\n"}, 700,
		},
		"v1": {"4:memory:/p/q\n0::/\n", mountV1 + mountV2, map[string]string{
			"sys/fs/cgroup/memory/p/q/memory.limit_in_bytes": "134217728\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
		}, 128 << 20},
		"v1 with other controllers": {"4:cpu,memory:/p\n", "33 31 0:30 / /c rw - cgroup cgroup rw,cpu,memory\n", map[string]string{
			"c/p/memory.limit_in_bytes": "900\n",
		}, 900},
		"v1 in a container": {"4:memory:/docker/x\n", "33 31 0:30 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "600\n"}, 600},
		"v1 without a limit": {"4:memory:/\n", mountV1, map[string]string{
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0},
		"escaped path": {"0::/a\n", `30 23 0:26 / /my\040groups rw - cgroup2 cgroup2 rw` + "\n",
			map[string]string{"my groups/a/memory.max": "800\n"}, 800},
		"garbage": {"x\n", "y\n - \n", map[string]string{"sys/fs/cgroup/memory.max": "1\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{
				"proc/self/cgroup":    {Data: []byte(c.group)},
				"proc/self/mountinfo": {Data: []byte(c.mounts)},
			}
			for f, text := range c.files {
				root[f] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, c.want, read(root))
		})
	}
	require.Zero(t, read(fstest.MapFS{}), "no /proc")
}
