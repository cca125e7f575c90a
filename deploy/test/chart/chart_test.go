// Package chart tests the compose file and the Helm chart: helm renders it with several settings, and every manifest is decoded strictly into
// the types of Kubernetes. It is a module of its own, so that these types are not dependencies of ORCAS.
package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const chart = "../../helm/orcas"

// helm runs helm, whose path is in HELM, and returns its output.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		t.Skip("HELM is not set: use make chart-test")
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	return string(out), err
}

// rendered are the manifests of the chart.
type rendered struct {
	set      apps.StatefulSet
	services []core.Service
	secrets  []core.Secret
	others   []string // kinds
}

// separator is between the manifests.
var separator = regexp.MustCompile(`(?m)^---$`)

// render renders the chart with settings, and decodes the manifests.
func render(t *testing.T, settings ...string) (r rendered) {
	t.Helper()
	args := []string{"template", "test", chart, "--namespace", "n", "--kube-version", "1.31"}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	out, err := helm(t, args...)
	if err != nil {
		t.Fatal(out)
	}
	decode := func(text string, into any) {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	for _, text := range separator.Split(out, -1) {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			t.Fatal(err)
		}
		switch head.Kind {
		case "":
		case "StatefulSet":
			decode(text, &r.set)
		case "Service":
			var s core.Service
			decode(text, &s)
			r.services = append(r.services, s)
		case "Secret":
			var s core.Secret
			decode(text, &s)
			r.secrets = append(r.secrets, s)
		default:
			r.others = append(r.others, head.Kind)
		}
	}
	return r
}

func TestLint(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", chart); err != nil {
		t.Fatal(out)
	}
}

func TestDefaults(t *testing.T) {
	r := render(t)
	pod := r.set.Spec.Template.Spec
	c := pod.Containers[0]
	if *r.set.Spec.Replicas != 1 || len(r.services) != 2 || len(r.secrets) != 0 || len(r.others) != 0 {
		t.Fatalf("%+v", r)
	}
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation ||
		*pod.AutomountServiceAccountToken || !slices.Equal(c.SecurityContext.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Fatal("the pod has more rights than it needs")
	}
	if c.StartupProbe.HTTPGet == nil || c.LivenessProbe.HTTPGet == nil || c.ReadinessProbe.HTTPGet.Path != "/-/health/ready" {
		t.Fatal("a probe is missing")
	}
	if slices.Contains(c.Args, "--admin-address=0.0.0.0:9001") || len(c.Env) != 0 {
		t.Fatal("by default, other pods must not reach the admin API")
	}
	if claim := r.set.Spec.VolumeClaimTemplates[0]; claim.Name != c.VolumeMounts[0].Name {
		t.Fatal("the claim is not mounted")
	}
	for _, s := range r.services {
		for name, value := range s.Spec.Selector {
			if r.set.Spec.Template.Labels[name] != value {
				t.Fatalf("service %s does not select the pod", s.Name)
			}
		}
	}
	if r.set.Spec.ServiceName != r.services[1].Name {
		t.Fatal("the set has no headless service")
	}
}

func TestEverything(t *testing.T) {
	r := render(t, "credentials.accessKey=access", "credentials.secretKey=secret", "tls.existingSecret=certificate", "metrics.enabled=true",
		"metrics.tokenSecret=token", "metrics.serviceMonitor.enabled=true", "persistence.existingClaim=claim", "env.ORCAS_REGION=eu-west-1",
		"extraArgs={--allow-missing-blocks}", "imagePullSecrets[0].name=pull", "nodeSelector.disk=fast", "priorityClassName=high",
		"tolerations[0].operator=Exists", "podLabels.a=b", "podAnnotations.c=d", "service.annotations.e=f")
	c := r.set.Spec.Template.Spec.Containers[0]
	for _, flag := range []string{"--tls-cert=/etc/orcas/tls/tls.crt", "--admin-tls-key=/etc/orcas/tls/tls.key", "--admin-address=0.0.0.0:9001", "--allow-missing-blocks"} {
		if !slices.Contains(c.Args, flag) {
			t.Errorf("the flag %s is missing: %q", flag, c.Args)
		}
	}
	variables := map[string]core.EnvVar{}
	for _, e := range c.Env {
		variables[e.Name] = e
	}
	if variables["ORCAS_METRICS_TOKEN_FILE"].Value != "/etc/orcas/metrics/token" || variables["ORCAS_REGION"].Value != "eu-west-1" ||
		variables["ORCAS_ROOT_SECRET_KEY"].ValueFrom.SecretKeyRef.Name != r.secrets[0].Name {
		t.Fatalf("%+v", variables)
	}
	if r.secrets[0].StringData["secretKey"] != "secret" || !slices.Equal(r.others, []string{"ServiceMonitor"}) || len(r.set.Spec.VolumeClaimTemplates) != 0 {
		t.Fatalf("%+v", r)
	}
	if c.ReadinessProbe.HTTPGet.Scheme != core.URISchemeHTTPS {
		t.Fatal("the probes do not use HTTPS")
	}
	for _, v := range r.set.Spec.Template.Spec.Volumes {
		if v.Secret != nil && *v.Secret.DefaultMode != 0o440 {
			t.Fatalf("others can read the secret %s", v.Name)
		}
	}
	existing := render(t, "credentials.existingSecret=mine")
	if e := existing.set.Spec.Template.Spec.Containers[0].Env[0]; e.ValueFrom.SecretKeyRef.Name != "mine" || len(existing.secrets) != 0 {
		t.Fatalf("%+v", e)
	}
}

func TestRefusedSettings(t *testing.T) {
	for settings, want := range map[string]string{
		"metrics.enabled=true":                           "metrics.tokenSecret",
		"metrics.enabled=true,metrics.tokenSecret=token": "metrics.insecure",
		"credentials.accessKey=access":                   "credentials.secretKey",
	} {
		out, err := helm(t, "template", "test", chart, "--kube-version", "1.31", "--set", settings)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %s", settings, out)
		}
	}
}

// TestCompose: the compose file is valid YAML, and the files that it mounts exist.
func TestCompose(t *testing.T) {
	const dir = "../../compose"
	text, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image   string
			Volumes []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) != 3 {
		t.Fatalf("%+v", file)
	}
	for name, service := range file.Services {
		for _, volume := range service.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			_, declared := file.Volumes[from]
			if _, err := os.Stat(filepath.Join(dir, from)); !declared && (err != nil || !strings.HasPrefix(from, ".")) {
				t.Errorf("%s mounts %s, which does not exist", name, from)
			}
		}
	}
	for _, name := range []string{"datasources/prometheus.yaml", "dashboards/orcas.yaml"} {
		text, err := os.ReadFile(filepath.Join(dir, "grafana", name))
		if err != nil {
			t.Fatal(err)
		}
		var any map[string]any
		if err := yaml.UnmarshalStrict(text, &any); err != nil || any["apiVersion"] != 1.0 {
			t.Errorf("%s: %v %v", name, err, any)
		}
	}
}

// TestDecodingIsStrict: a manifest with a field that does not exist is an error.
func TestDecodingIsStrict(t *testing.T) {
	if err := yaml.UnmarshalStrict([]byte("kind: Service\nspec:\n  prots: []\n"), &core.Service{}); err == nil {
		t.Fatal("the unknown field was accepted")
	}
}
