package tree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"orcas/sdk"
	"orcas/sdk/tree"
)

// example returns a client of a test server, and a directory with two files.
func example() (client *sdk.Client, dir string, done func()) {
	client, err := sdk.New(sdk.Config{Endpoint: tree.ServerEndpoint(), Credentials: sdk.Static(tree.ServerKeys())})
	if err != nil {
		panic(err)
	}
	dir, err = os.MkdirTemp("", "photos")
	if err != nil {
		panic(err)
	}
	for name, content := range map[string]string{"a.jpg": "first", "sub/b.txt": "second"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			panic(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			panic(err)
		}
	}
	return client, dir, func() {
		client.Close()
		_ = os.RemoveAll(dir)
	}
}

// report prints actions in a fixed order: with one worker, files are copied one after another.
func report(a tree.Action) { fmt.Println(a.Op, a.Path, a.Reason) }

func ExampleSync() {
	client, dir, done := example()
	defer done()
	ctx := context.Background()
	from, to := tree.Local(dir), tree.Remote(client, "bucket", "example/sync")
	result, err := tree.Sync(ctx, from, to, tree.Options{Delete: true, Parallel: 1, Report: report})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Copied, "copied")
	result, err = tree.Sync(ctx, from, to, tree.Options{Delete: true})
	fmt.Println(result.Copied, "copied,", result.Skipped, "equal", err)
	// Output:
	// copy a.jpg new
	// copy sub/b.txt new
	// 2 copied
	// 0 copied, 2 equal <nil>
}

func ExampleCopy() {
	client, dir, done := example()
	defer done()
	result, err := tree.Copy(context.Background(), tree.Local(dir), tree.Remote(client, "bucket", "example/copy"), tree.Options{})
	fmt.Println(result.Copied, "files,", result.BytesCopied, "bytes", err)
	// Output: 2 files, 11 bytes <nil>
}

func ExampleMove() {
	client, dir, done := example()
	defer done()
	result, err := tree.Move(context.Background(), tree.Local(dir), tree.Remote(client, "bucket", "example/move"), tree.Options{})
	_, gone := os.Stat(filepath.Join(dir, "a.jpg"))
	fmt.Println(result.Copied, "copied,", result.Deleted, "deleted", err, errors.Is(gone, os.ErrNotExist))
	// Output: 2 copied, 2 deleted <nil> true
}

func ExampleDiff() {
	client, dir, done := example()
	defer done()
	for d, err := range tree.Diff(context.Background(), tree.Local(dir), tree.Remote(client, "bucket", "example/diff"), tree.Options{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Kind, d.Path, d.FromSize)
	}
	// Output:
	// only-from a.jpg 5
	// only-from sub/b.txt 6
}

func ExampleCopyFile() {
	client, dir, done := example()
	defer done()
	from, to := tree.File(filepath.Join(dir, "a.jpg")), tree.Object(client, "bucket", "example/file.jpg")
	_, err := tree.CopyFile(context.Background(), from, to, tree.Options{})
	fmt.Println(to, err)
	// Output: s3://bucket/example/file.jpg <nil>
}

func ExampleMoveFile() {
	client, dir, done := example()
	defer done()
	from, to := tree.File(filepath.Join(dir, "a.jpg")), tree.Object(client, "bucket", "example/moved.jpg")
	result, err := tree.MoveFile(context.Background(), from, to, tree.Options{})
	fmt.Println(result.Deleted, err)
	// Output: 1 <nil>
}

func ExampleLocal() {
	fmt.Println(tree.Local("photos"))
	// Output: photos
}

func ExampleRemote() {
	client, _, done := example()
	defer done()
	fmt.Println(tree.Remote(client, "bucket", "photos/2026"))
	// Output: s3://bucket/photos/2026/
}

func ExampleFile() {
	fmt.Println(tree.File("photos/a.jpg"))
	// Output: photos/a.jpg
}

func ExampleObject() {
	client, _, done := example()
	defer done()
	fmt.Println(tree.Object(client, "bucket", "a.jpg"))
	// Output: s3://bucket/a.jpg
}

func ExamplePlace_String() {
	fmt.Println(tree.Local("photos").String())
	// Output: photos
}

func ExampleInclude() {
	client, dir, done := example()
	defer done()
	photos, err := tree.Include("*.jpg")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = tree.Sync(context.Background(), tree.Local(dir), tree.Remote(client, "bucket", "example/include"),
		tree.Options{Patterns: []tree.Pattern{photos}, Report: report})
	fmt.Println(err)
	// Output:
	// copy a.jpg new
	// <nil>
}

func ExampleExclude() {
	_, err := tree.Exclude("{a,b")
	fmt.Println(err)
	// Output: tree: pattern "{a,b": { without }
}

func ExamplePattern_String() {
	p, _ := tree.Exclude("/cache/")
	fmt.Println(p)
	// Output: /cache/
}

func ExamplePattern() {
	text, _ := tree.Include("*.txt")
	all, _ := tree.Exclude("*")
	fmt.Println([]tree.Pattern{all, text}) // only text: the last one that matches decides
	// Output: [* *.txt]
}

func ExampleParseConflict() {
	var policy tree.Conflict
	policy, err := tree.ParseConflict("newer")
	fmt.Println(policy, err)
	_, err = tree.ParseConflict("ask")
	fmt.Println(err)
	// Output:
	// newer <nil>
	// tree: "ask" is not a conflict policy: expected one of overwrite, skip, rename, newer, fail
}

func ExampleConflict() {
	client, dir, done := example()
	defer done()
	ctx, from, to := context.Background(), tree.File(filepath.Join(dir, "a.jpg")), tree.Object(client, "bucket", "example/conflict.jpg")
	_, err := tree.CopyFile(ctx, from, to, tree.Options{})
	fmt.Println(err)
	from = tree.File(filepath.Join(dir, "sub", "b.txt"))
	_, err = tree.CopyFile(ctx, from, to, tree.Options{Conflict: tree.Fail})
	fmt.Println(errors.Is(err, tree.ErrConflict))
	_, err = tree.CopyFile(ctx, from, to, tree.Options{Conflict: tree.Rename, Report: func(a tree.Action) { fmt.Println(a.Op, a.To) }})
	fmt.Println(err)
	// Output:
	// <nil>
	// true
	// copy s3://bucket/example/conflict (1).jpg
	// <nil>
}

func ExampleConflict_String() {
	fmt.Println(tree.Overwrite, tree.Skip, tree.Rename, tree.Newer, tree.Fail)
	// Output: overwrite skip rename newer fail
}

func ExampleOptions() {
	client, dir, done := example()
	defer done()
	o := tree.Options{DryRun: true, Delete: true, Preserve: true, Symlinks: tree.StoreSymlinks}
	result, err := tree.Sync(context.Background(), tree.Local(dir), tree.Remote(client, "bucket", "example/options"), o)
	fmt.Println(result.Copied, "would be copied", err)
	// Output: 2 would be copied <nil>
}

func ExampleSymlinks() {
	client, dir, done := example()
	defer done()
	if err := os.Symlink("a.jpg", filepath.Join(dir, "link")); err != nil {
		fmt.Println(err)
		return
	}
	for _, links := range []tree.Symlinks{tree.SkipSymlinks, tree.FollowSymlinks, tree.StoreSymlinks} {
		to := tree.Remote(client, "bucket", fmt.Sprint("example/links/", int(links)))
		result, err := tree.Sync(context.Background(), tree.Local(dir), to, tree.Options{Symlinks: links})
		fmt.Println(result.Copied, "copied", err)
	}
	// Output:
	// 2 copied <nil>
	// 3 copied <nil>
	// 3 copied <nil>
}

func ExampleAction() {
	client, dir, done := example()
	defer done()
	_, err := tree.Sync(context.Background(), tree.Local(dir), tree.Remote(client, "bucket", "example/action"), tree.Options{Parallel: 1,
		Report: func(a tree.Action) {
			if a.Op == tree.OpCopy {
				fmt.Println(a.To, a.Size, a.BytesSent)
			}
		}})
	fmt.Println(err)
	// Output:
	// s3://bucket/example/action/a.jpg 5 5
	// s3://bucket/example/action/sub/b.txt 6 6
	// <nil>
}

func ExampleOp() {
	fmt.Println(tree.OpCopy, tree.OpDelete, tree.OpSkip, tree.OpMkdir, tree.OpError)
	// Output: copy delete skip mkdir error
}

func ExampleResult() {
	client, dir, done := example()
	defer done()
	if err := os.WriteFile(filepath.Join(dir, "\xff"), nil, 0o600); err != nil {
		fmt.Println(err)
		return
	}
	var result *tree.Result
	result, err := tree.Sync(context.Background(), tree.Local(dir), tree.Remote(client, "bucket", "example/result"), tree.Options{})
	fmt.Println(result.Files, "files,", result.Copied, "copied,", result.Failed, "failed,", errors.Is(err, tree.ErrPartial))
	for _, a := range result.Errors {
		fmt.Printf("%q: %v\n", a.Path, a.Err)
	}
	// Output:
	// 3 files, 2 copied, 1 failed, true
	// "\xff": the name is not valid UTF-8, as keys must be
}

func ExampleProgress() {
	client, dir, done := example()
	defer done()
	var last tree.Progress
	_, err := tree.Sync(context.Background(), tree.Local(dir), tree.Remote(client, "bucket", "example/progress"),
		tree.Options{Progress: func(p tree.Progress) { last = p }})
	fmt.Println(last.Copied, "of", last.Copies, "files,", last.BytesDone, "of", last.Bytes, "bytes", err)
	// Output: 2 of 2 files, 11 of 11 bytes <nil>
}

func ExampleDifference() {
	d := tree.Difference{Kind: tree.Differs, Path: "a.jpg", Reason: "size", FromSize: 2, ToSize: 1}
	fmt.Println(d.Kind, d.Path, d.Reason)
	// Output: differs a.jpg size
}

func ExampleDifferenceKind() {
	for _, kind := range []tree.DifferenceKind{tree.OnlyFrom, tree.OnlyTo, tree.Differs, tree.Failed} {
		fmt.Println(kind)
	}
	// Output:
	// only-from
	// only-to
	// differs
	// failed
}

func ExamplePlace() {
	client, dir, done := example()
	defer done()
	places := []tree.Place{tree.Local(dir), tree.Remote(client, "bucket", "example/place/1"), tree.Remote(client, "bucket", "example/place/2")}
	for i := range 2 {
		result, err := tree.Copy(context.Background(), places[i], places[i+1], tree.Options{})
		fmt.Println(result.Copied, err)
	}
	// Output:
	// 2 <nil>
	// 2 <nil>
}
