package profile_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"orcas/sdk"
	"orcas/sdk/profile"
)

// environment returns the environment of a user with a file of profiles.
func environment() (environ []string, path string) {
	dir, err := os.MkdirTemp("", "profile")
	if err != nil {
		log.Fatal(err)
	}
	path = filepath.Join(dir, "config")
	f := profile.File{Path: path, Profiles: map[string]profile.Settings{
		"home": {Endpoint: "https://store.example.com", AccessKey: "ACCESS", SecretKey: "SECRET", RefLevel: "FULL"},
	}}
	if err := f.Save(); err != nil {
		log.Fatal(err)
	}
	return []string{"ORCAS_CONFIG=" + path}, path
}

func ExampleLoad() {
	environ, path := environment()
	defer os.RemoveAll(filepath.Dir(path))
	profiles, err := profile.Load(profile.Options{Environ: environ}) // os.Environ()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(profiles.Names())
	// Output: [home]
}

func ExampleProfiles_Get() {
	environ, path := environment()
	defer os.RemoveAll(filepath.Dir(path))
	profiles, err := profile.Load(profile.Options{Environ: environ})
	if err != nil {
		log.Fatal(err)
	}
	var home *profile.Profile
	home, err = profiles.Get("home") // home://BUCKET/KEY
	if err != nil {
		log.Fatal(err)
	}
	keys, err := home.Credentials.Get(context.Background())
	fmt.Println(home.Endpoint, keys.AccessKey, home.RefLevel, err)

	_, err = profiles.Get("hme")
	var unknown *profile.UnknownError
	fmt.Println(errors.As(err, &unknown))
	fmt.Println(unknown.Error())

	_, err = profiles.Get("") // s3://BUCKET/KEY
	fmt.Println(errors.Is(err, profile.ErrNoCredentials))
	// Output:
	// https://store.example.com ACCESS FULL <nil>
	// true
	// there is no profile hme (the profiles are home): add it with orcas alias set hme URL
	// true
}

func ExampleProfile_Config() {
	environ, path := environment()
	defer os.RemoveAll(filepath.Dir(path))
	profiles, err := profile.Load(profile.Options{Environ: environ})
	if err != nil {
		log.Fatal(err)
	}
	home, err := profiles.Get("home")
	if err != nil {
		log.Fatal(err)
	}
	config, err := home.Config()
	if err != nil {
		log.Fatal(err)
	}
	client, err := sdk.New(config)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(client.Endpoint())
	// Output: https://store.example.com
}

func ExampleProfiles_File() {
	environ, path := environment()
	defer os.RemoveAll(filepath.Dir(path))
	profiles, err := profile.Load(profile.Options{Environ: environ})
	if err != nil {
		log.Fatal(err)
	}
	file := profiles.File()
	delete(file.Profiles, "home")
	fmt.Println(file.Save())
	// Output: <nil>
}

func ExampleOpen() {
	_, path := environment()
	defer os.RemoveAll(filepath.Dir(path))
	file, err := profile.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.Profiles["home"].Endpoint)
	// Output: https://store.example.com
}

func ExampleFile_Save() {
	_, path := environment()
	defer os.RemoveAll(filepath.Dir(path))
	file, err := profile.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	file.Profiles["work"] = profile.Settings{Endpoint: "http://127.0.0.1:9000", Anonymous: true}
	fmt.Println(file.Save())
	// Output: <nil>
}

func ExampleSettings_Check() {
	s := profile.Settings{Endpoint: "http://127.0.0.1:9000", RefLevel: "MAXIMUM"}
	fmt.Println(s.Check())
	// Output: ref_level: expected OFF or FULL or FAST, not "MAXIMUM"
}

func ExampleCheckName() {
	fmt.Println(profile.CheckName("home"))
	fmt.Println(profile.CheckName("s3"))
	// Output:
	// <nil>
	// a profile cannot be named s3: s3:// addresses use the profile default: set that
}

func ExampleCheckEndpoint() {
	fmt.Println(profile.CheckEndpoint("http://127.0.0.1:9000"))
	fmt.Println(profile.CheckEndpoint("127.0.0.1:9000"))
	// Output:
	// <nil>
	// expected the URL of an S3 server, http://HOST:PORT or https://HOST:PORT, not "127.0.0.1:9000"
}
