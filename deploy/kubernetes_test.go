//go:build linux || darwin

package deploy

import (
	"errors"
	"io"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// manifest is what of the Kubernetes objects is checked.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas     int
		MinAvailable int `yaml:"minAvailable"`
		Strategy     struct {
			Type          string
			RollingUpdate struct {
				MaxSurge       int `yaml:"maxSurge"`
				MaxUnavailable int `yaml:"maxUnavailable"`
			} `yaml:"rollingUpdate"`
		}
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     pod
		}
	}
}

type pod struct {
	TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
	AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
	EnableServiceLinks            *bool `yaml:"enableServiceLinks"`
	SecurityContext               struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
		RunAsUser    int  `yaml:"runAsUser"`
		RunAsGroup   int  `yaml:"runAsGroup"`
		FSGroup      int  `yaml:"fsGroup"`
	} `yaml:"securityContext"`
	Containers []container
	Volumes    []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
		Secret    struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
		}
	}
}

type container struct {
	Args  []string
	Env   []struct{ Name, Value string }
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	LivenessProbe   probe `yaml:"livenessProbe"`
	ReadinessProbe  probe `yaml:"readinessProbe"`
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// mount returns where a volume is in the container.
func (c container) mount(volume string) string {
	for _, m := range c.VolumeMounts {
		if m.Name == volume {
			return m.MountPath
		}
	}
	return ""
}

const manifestFile = "kubernetes/outbox-cdc.yaml"

func readManifests(t *testing.T) map[string]manifest {
	t.Helper()
	byKind := make(map[string]manifest)
	decoder := yaml.NewDecoder(strings.NewReader(readText(t, manifestFile)))
	for {
		var m manifest
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		byKind[m.Kind] = m
	}
	want := []string{"ConfigMap", "Deployment", "PodDisruptionBudget"}
	if got := slices.Sorted(maps.Keys(byKind)); !slices.Equal(got, want) {
		t.Fatalf("got objects of kinds %q, want %q", got, want)
	}
	if n := len(byKind["Deployment"].Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("got %d containers, want one", n)
	}
	return byKind
}

// theContainer returns the container of the Deployment.
func theContainer(t *testing.T) container {
	t.Helper()
	return readManifests(t)["Deployment"].Spec.Template.Spec.Containers[0]
}

func TestKubernetesStartsTheBinaryAsItIs(t *testing.T) {
	c := theContainer(t)
	configMap := readManifests(t)["ConfigMap"]
	if c.Args[0] != "run" {
		t.Fatalf("the container runs %q", c.Args)
	}
	checkArguments(t, c.Args)
	if want := "--config=" + path.Join(c.mount("config"), "config.yaml"); !slices.Contains(c.Args, want) {
		t.Errorf("the container runs %q, want %s", c.Args, want)
	}
	known := words(help(t, "run"))
	variables := make(map[string]string)
	for _, v := range c.Env {
		dir, key := path.Split(v.Value)
		if !known["$"+v.Name] || path.Clean(dir) != c.mount("secrets") {
			t.Errorf("%s is %s, want a variable of outbox-cdc and a file below %s", v.Name, v.Value, c.mount("secrets"))
		}
		if !strings.Contains(readText(t, manifestFile), "create secret generic outbox-cdc --from-file="+key+"=") {
			t.Errorf("nothing says how to create the secret with key %s", key)
		}
		variables[v.Name] = secretFile(t)
	}
	checkConfiguration(t, configMap.Data["config.yaml"], variables)
}

func TestKubernetesMountsWhatItNames(t *testing.T) {
	all := readManifests(t)
	pod := all["Deployment"].Spec.Template.Spec
	for _, v := range pod.Volumes {
		switch v.Name {
		case "config":
			if v.ConfigMap.Name != all["ConfigMap"].Metadata.Name {
				t.Errorf("volume config is of ConfigMap %q", v.ConfigMap.Name)
			}
		case "secrets":
			if mode := v.Secret.DefaultMode; mode != 0o440 || pod.SecurityContext.FSGroup != pod.SecurityContext.RunAsGroup {
				t.Errorf("secrets have mode %o and group %d, which group %d cannot read, or others can", mode, pod.SecurityContext.FSGroup, pod.SecurityContext.RunAsGroup)
			}
		default:
			t.Errorf("what is volume %s?", v.Name)
		}
		if theContainer(t).mount(v.Name) == "" {
			t.Errorf("volume %s is not mounted", v.Name)
		}
	}
}

func TestKubernetesAsksWhereTheBinaryListens(t *testing.T) {
	all := readManifests(t)
	c := theContainer(t)
	var config struct{ HTTP string }
	if err := yaml.Unmarshal([]byte(all["ConfigMap"].Data["config.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(config.HTTP)
	if err != nil || host != "0.0.0.0" {
		t.Errorf("it listens on %q, where no probe reaches it", config.HTTP)
	}
	if len(c.Ports) != 1 || strconv.Itoa(c.Ports[0].ContainerPort) != port {
		t.Fatalf("got ports %+v, want %s", c.Ports, port)
	}
	if got := all["Deployment"].Spec.Template.Metadata.Annotations["prometheus.io/port"]; got != port {
		t.Errorf("Prometheus is sent to port %s, want %s", got, port)
	}
	served := words(help(t, "run"))
	for _, tc := range []struct {
		probe probe
		path  string
	}{{c.LivenessProbe, "/livez"}, {c.ReadinessProbe, "/readyz"}} {
		if get := tc.probe.HTTPGet; get.Path != tc.path || get.Port != c.Ports[0].Name || !served[get.Path] {
			t.Errorf("a probe asks for %+v, want %s on %s, which the help of --http names", get, tc.path, c.Ports[0].Name)
		}
	}
}

func TestKubernetesHandsOver(t *testing.T) {
	all := readManifests(t)
	deployment, budget := all["Deployment"].Spec, all["PodDisruptionBudget"].Spec
	if deployment.Replicas != 2 || budget.MinAvailable != 1 {
		t.Errorf("got %d replicas and a budget of %d, want one that publishes and one that stands by", deployment.Replicas, budget.MinAvailable)
	}
	s := deployment.Strategy
	if s.Type != "RollingUpdate" || s.RollingUpdate.MaxSurge != 1 || s.RollingUpdate.MaxUnavailable != 0 {
		t.Errorf("strategy: got %+v", s)
	}
	for _, selector := range []map[string]string{deployment.Selector.MatchLabels, budget.Selector.MatchLabels} {
		if !maps.Equal(selector, deployment.Template.Metadata.Labels) {
			t.Errorf("selector %v does not select pods with labels %v", selector, deployment.Template.Metadata.Labels)
		}
	}
	grace := time.Duration(deployment.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if least := shutdownTimeout(t); grace <= least {
		t.Errorf("a pod is killed after %s, want more than --shutdown-timeout, %s", grace, least)
	}
}

func TestKubernetesGivesNothingAway(t *testing.T) {
	pod := readManifests(t)["Deployment"].Spec.Template.Spec
	off := func(b *bool) bool { return b != nil && !*b }
	if !off(pod.EnableServiceLinks) || !off(pod.AutomountServiceAccountToken) {
		t.Error("the pod is given variables or a token that it does not need")
	}
	user := find(readDockerfile(t)[1], "USER")[0]
	if got := strconv.Itoa(pod.SecurityContext.RunAsUser) + ":" + strconv.Itoa(pod.SecurityContext.RunAsGroup); got != user || !pod.SecurityContext.RunAsNonRoot {
		t.Errorf("the pod runs as %s, want %s and not as root", got, user)
	}
	c := theContainer(t)
	if s := c.SecurityContext; !off(s.AllowPrivilegeEscalation) || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("security context: got %+v", s)
	}
	if c.Resources.Requests["memory"] != "96Mi" || c.Resources.Limits["memory"] == "" {
		t.Errorf("memory: got %+v, want what it needs with the default of --max-in-flight-bytes", c.Resources)
	}
}
