package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/config"
)

// Invitation is what somebody does to add a host to the cluster.
type Invitation struct {
	Copy  []string `json:"copy"`  // commands for the folder where make install was run; none if the plugin comes from a registry
	Here  []string `json:"here"`  // commands for this host; none if there is no key to copy
	There []string `json:"there"` // commands for the new host
	Ports string   `json:"ports"` // what must be open between the hosts
}

// hostName is what ssh takes as a host, with or without a user, and a shell as a word.
var hostName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.@:-]*$`)

func (a *app) inviteCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:        "invite [--host NAME]",
		SuggestFor: []string{"add", "token", "join-token"},
		Short:      "Print the commands that add another host",
		GroupID:    groupHosts,
		Long: `Print the commands that add a host to the cluster: how the key gets there, and
how the plugin is installed there. The key itself is not printed, and is on no
command line.`,
		Example: `  ringlet invite --host host-c`,
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !hostName.MatchString(name) {
				return usagef(cmd, "%q is not the name of a host that ssh could reach, such as host-c or root@192.168.1.13", name)
			}
			return a.invite(cmd.Context(), name)
		},
	}
	cmd.Flags().StringVar(&name, "host", "NEW-HOST", "the `name` of the new host, as for ssh")
	return cmd
}

func (a *app) invite(ctx context.Context, name string) error {
	t, err := a.find(ctx)
	if err != nil {
		return err
	}
	if t.plugin.ID == "" {
		return errors.New("ringlet invite is for the Docker plugin: for a process of ringlet serve, copy its settings and the key file to the new host, and add RINGLET_JOIN with the address of this one")
	}
	out, err := a.invitation(ctx, t, name)
	if err != nil {
		return err
	}
	return a.flushed(a.show(out, func() { a.view.invitation(out, name) }))
}

// invitation returns what adds a host to the cluster of a plugin.
func (a *app) invitation(ctx context.Context, t target, name string) (out Invitation, err error) {
	c := newClient(t)
	defer c.close()
	var st ipam.Status
	if err := c.get(ctx, path("status"), &st); err != nil {
		return out, err
	}
	var about admin.About
	if err := c.get(ctx, path("about"), &about); err != nil {
		return out, err
	}
	if !about.Network.Open {
		return out, errors.New("this host has no key, and talks to no other host: see \"Several hosts\" in README.md")
	}
	out = Invitation{Ports: fmt.Sprintf("port %d, TCP and UDP", config.DefaultPort)}
	join := joinList(st, about)
	if ap, err := netip.ParseAddrPort(about.Network.Advertise); err == nil {
		out.Ports = fmt.Sprintf("port %d, TCP and UDP", ap.Port())
	}
	settings := []string{"RINGLET_JOIN=" + strings.Join(join, ",")}
	values := map[string]string{}
	for _, setting := range t.plugin.Env {
		if key, value, ok := strings.Cut(setting, "="); ok && value != "" {
			values[key] = value
		}
	}
	const key = "ringlet.key"
	secret := true
	switch {
	case values["RINGLET_KEY_FILE"] != "":
		root, err := a.cfg.EngineRoot(ctx, t.host)
		if err != nil {
			return out, fmt.Errorf("the docker engine does not say where its plugins are: %w", err)
		}
		out.Here = append(out.Here, fmt.Sprintf("ssh %s 'umask 077; cat >%s' <%s", name, key, quoted(t.plugin.Path(root, values["RINGLET_KEY_FILE"]))))
	case values["RINGLET_KEY"] != "":
		out.Here = append(out.Here, fmt.Sprintf(`docker plugin inspect --format '{{range .Settings.Env}}{{println .}}{{end}}' %s |`, t.plugin.Name),
			fmt.Sprintf(`  sed -n 's/^RINGLET_KEY=//p' | tr , '\n' | ssh %s 'umask 077; cat >%s'`, name, key))
	default:
		secret = false
	}
	if secret {
		settings = append(settings, "RINGLET_KEY_FILE=/data/keys")
	}
	for _, setting := range config.Shared() {
		if value := values[setting]; value != "" {
			settings = append(settings, quoted(setting+"="+value))
		}
	}
	out.There = install(t.plugin.Name, t.plugin.Reference, settings)
	if !isFromRegistry(t.plugin.Reference) {
		out.Copy = []string{fmt.Sprintf("tar -C build -c plugin | ssh %s 'tar -x'", name)}
	}
	if secret {
		out.There = append(out.There,
			fmt.Sprintf("data=%s/plugins/$(docker plugin inspect --format '{{.ID}}' %s)/propagated-mount", "$(docker info --format '{{.DockerRootDir}}')", t.plugin.Name),
			fmt.Sprintf(`install -D -m 600 %s "$data/keys" && rm %s`, key, key))
	}
	out.There = append(out.There, "docker plugin enable "+t.plugin.Name)
	return out, nil
}

// install returns the commands that put the plugin into an engine, not enabled yet.
func install(name, reference string, settings []string) []string {
	if isFromRegistry(reference) {
		return []string{fmt.Sprintf("docker plugin install --disable --grant-all-permissions --alias %s %s %s", name, reference, strings.Join(settings, " "))}
	}
	return []string{
		"docker plugin create " + name + " plugin",
		"docker plugin set " + name + " " + strings.Join(settings, " "),
	}
}

// isFromRegistry reports whether a plugin was installed from a registry, and not made on this host.
func isFromRegistry(reference string) bool {
	registry, _, ok := strings.Cut(reference, "/")
	return ok && strings.ContainsAny(registry, ".:") && !strings.HasPrefix(reference, "docker.io/library/")
}

// joinList returns where a new host finds the cluster: this host and two others at most, without the default port.
func joinList(st ipam.Status, about admin.About) []string {
	const most = 3
	list := []string{about.Network.Advertise}
	for _, p := range st.Peers {
		if p.Reachable && p.ID != st.Self.ID && p.Address != "" && len(list) < most {
			list = append(list, p.Address)
		}
	}
	for i, at := range list {
		if ap, err := netip.ParseAddrPort(at); err == nil && ap.Port() == config.DefaultPort {
			list[i] = ap.Addr().String()
		}
	}
	return list
}

// quoted is a word of a shell.
func quoted(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("/.,:=_-+@%", r) && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return cmp.Or(s, "''")
}

func (v view) invitation(in Invitation, name string) {
	step := 0
	tell := func(what string, lines []string) {
		step++
		v.wrap(bold, fmt.Sprintf("%d. ", step), what)
		for _, line := range lines {
			v.printf("   %s\n", safe(line))
		}
	}
	tell("Open "+in.Ports+", between "+name+" and all hosts of the cluster.", nil)
	if len(in.Copy) > 0 {
		tell("In the folder where you ran make install, copy the plugin:", in.Copy)
	}
	if len(in.Here) > 0 {
		tell("On this host, as root, copy the key:", in.Here)
	}
	tell("On "+name+", as root:", in.There)
	v.wrap(plain, "", "The new host is a member when ringlet status there says ready.")
}
