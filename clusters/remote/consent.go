package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Level is something that the owner of a cluster allows.
type Level string

const (
	// ReadOnly allows an administrator's requests that change only objects in holdfast's own
	// namespaces. Every consent includes it.
	ReadOnly Level = "read-only"
	// Processes allows killing, stopping and freezing components, having etcd move its leadership
	// and defragment members, installing the required agent on the nodes, and keys of holdfast's
	// own in etcd.
	Processes Level = "process"
	// Network allows impairing the network of the nodes.
	Network Level = "network"
	// Power allows cutting the power of nodes with power commands in the inventory.
	Power Level = "power"
	// QuorumLoss allows breaking more nodes at a time than the cluster is designed to tolerate.
	QuorumLoss Level = "quorum-loss"
	// Data allows changing the data of etcd members, its history and its list of members,
	// certificates, and objects outside of holdfast's namespaces, such as leases. It also allows
	// filling the volume of a member's data: that changes none of them, but a member whose write
	// fails in the middle may exit and need repair, and so a snapshot is taken first.
	Data Level = "data"
)

// Levels are all levels.
var Levels = []Level{ReadOnly, Processes, Network, Power, QuorumLoss, Data}

// endangering are the levels with which a snapshot of etcd is taken first.
var endangering = []Level{Power, QuorumLoss, Data}

// The consent object.
const (
	consentNamespace = metav1.NamespaceSystem
	consentName      = "holdfast-consent"
	consentPath      = "/api/v1/namespaces/" + consentNamespace + "/configmaps/" + consentName
	// Keys of its data.
	consentUID, consentExpires, consentLevels = "clusterUID", "expires", "levels"
)

// Consent is what the owner of a cluster allows.
type Consent struct {
	// ClusterUID is the UID of the namespace kube-system, which identifies a cluster.
	ClusterUID string
	Expires    time.Time
	Levels     []Level
}

// Manifest returns the consent object, for the owner to apply.
func (c Consent) Manifest() ([]byte, error) {
	return yaml.Marshal(corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: consentNamespace, Name: consentName},
		Data: map[string]string{consentUID: c.ClusterUID, consentExpires: c.Expires.UTC().Format(time.RFC3339),
			consentLevels: strings.Join(framework.Names(c.Levels, func(l Level) string { return string(l) }), ",")},
	})
}

// ErrNoConsent is in the error of an Attach to a cluster whose owner has not consented.
var ErrNoConsent = errors.New("the owner of the cluster has not consented")

// parseConsent parses the consent object.
func parseConsent(body []byte) (c Consent, err error) {
	var object corev1.ConfigMap
	if err := json.Unmarshal(body, &object); err != nil {
		return c, fmt.Errorf("failed to read the consent: %w", err)
	}
	c.ClusterUID = object.Data[consentUID]
	if c.Expires, err = time.Parse(time.RFC3339, object.Data[consentExpires]); err != nil {
		return c, fmt.Errorf("failed to read when the consent expires: %w", err)
	}
	for _, text := range strings.FieldsFunc(object.Data[consentLevels], func(r rune) bool { return r == ',' || r == ' ' }) {
		if !slices.Contains(Levels, Level(text)) {
			return c, fmt.Errorf("the consent allows %q, which is unknown: want %s", text, names(Levels))
		}
		c.Levels = append(c.Levels, Level(text))
	}
	return c, nil
}

// check returns why a consent is not valid for a cluster at a time; nil if it is.
func (c Consent) check(clusterUID string, now time.Time) error {
	switch {
	case c.ClusterUID != clusterUID:
		return fmt.Errorf("%w: the consent is for the cluster with UID %s, and this one has %s", ErrNoConsent, cmp.Or(c.ClusterUID, "none"), clusterUID)
	case !c.Expires.After(now):
		return fmt.Errorf("%w: the consent expired at %s", ErrNoConsent, c.Expires.Format(time.RFC3339))
	}
	return nil
}

// refused returns the error of an action without the owner's consent. It is a
// fault.MissingAbility: the action does not apply to the cluster.
func refused(cluster, what string, why error) error {
	return framework.Untouched{Err: refusal{&fault.MissingAbility{Ability: "consent", Of: "cluster " + cluster, For: "to " + what, Why: why.Error()}, why}}
}

type refusal struct {
	*fault.MissingAbility
	why error
}

func (r refusal) Error() string { return r.For + ": " + r.why.Error() }

func (r refusal) Unwrap() []error { return []error{r.MissingAbility, r.why} }

// allows reports whether the consent includes a level.
func (c Consent) allows(l Level) bool { return l == ReadOnly || slices.Contains(c.Levels, l) }

// mayAllow reports whether the consent may include a fault with these effects. Every fault needs the
// agents.
func (c Consent) mayAllow(effects []record.Effect) bool {
	return c.allows(Processes) && !slices.ContainsFunc(effects, func(e record.Effect) bool { return !c.allows(levelOf(e)) })
}

// levelOf returns the level that every fault with an effect needs.
func levelOf(e record.Effect) Level {
	switch e {
	case record.EffectNetwork, record.EffectIsolated, record.EffectPartitioned:
		return Network
	case record.EffectPower:
		return Power
	case record.EffectDisk, record.EffectCertificate, record.EffectRemoved, record.EffectRestored, record.EffectAlarm, record.EffectAdmission, record.EffectLease:
		return Data
	}
	return Processes
}

// readConsent returns the consent of the cluster's owner, if it is valid now.
func (a *access) readConsent(ctx context.Context) (Consent, error) {
	uid, err := a.clusterUID(ctx)
	if err != nil {
		return Consent{}, err
	}
	var body json.RawMessage
	err = a.read(ctx, consentPath, &body)
	if notFound(err) {
		return Consent{}, fmt.Errorf("%w: kube-system has no ConfigMap %s", ErrNoConsent, consentName)
	}
	if err != nil {
		return Consent{}, fmt.Errorf("failed to read the consent: %w", err)
	}
	c, err := parseConsent(body)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrNoConsent, err)
	}
	return c, c.check(uid, time.Now())
}

// clusterUID returns the UID of the namespace kube-system.
func (a *access) clusterUID(ctx context.Context) (string, error) {
	var ns corev1.Namespace
	if err := a.read(ctx, "/api/v1/namespaces/"+metav1.NamespaceSystem, &ns); err != nil {
		return "", fmt.Errorf("failed to read the cluster's UID: %w", err)
	}
	return string(ns.UID), nil
}

// Ask returns the consent that the owner of an inventory's cluster would give until a time.
func Ask(ctx context.Context, i *clusters.Inventory, levels []Level, expires time.Time) (Consent, error) {
	a, err := reach(i)
	if err != nil {
		return Consent{}, err
	}
	uid, err := a.clusterUID(ctx)
	return Consent{ClusterUID: uid, Expires: expires, Levels: levels}, err
}
