#!/bin/sh
# cluster.sh DIR COMMAND...
#
# Makes a control plane of three nodes by hand, runs a command beside it, and stops all of it
# when the command exits. With EXTERNAL_ETCD=1 in the environment, etcd has three hosts of its own;
# with SUPERVISOR=k0s, components are children of a process of that name, which starts each again
# after 5 s. It needs root, iproute2, openssl, sshd, haproxy and curl, and etcd, kube-apiserver,
# kube-controller-manager and kube-scheduler in PATH. The nodes are namespaces of this machine, from
# which nothing leads out. It writes certificates, logs, admin.conf, and nodes.yaml, an inventory for
# holdfast, to DIR. See README.md.
set -eu
PATH=$PATH:/usr/sbin:/sbin
NET=10.88.0 LB=10.88.0.1 NODES="1 2 3" MEMBERS="1 2 3" HOSTS="1 2 3"
[ -z "${EXTERNAL_ETCD:-}" ] || MEMBERS="4 5 6" HOSTS="1 2 3 4 5 6"
self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
shell=sh pause=1

# The script runs itself again: first in namespaces of its own, then as each node.
case ${1:-} in
"") sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
--inside | --node) ;;
*)
	for program in ip openssl ssh-keygen sshd haproxy curl etcd kube-apiserver kube-controller-manager kube-scheduler; do
		command -v "$program" >/dev/null || { echo "$program is not in PATH: see README.md" >&2; exit 2; }
	done
	mkdir -p "$1"
	dir=$(cd "$1" && pwd)
	shift
	exec unshare --mount --net --uts --pid --fork --kill-child --mount-proc sh "$self" --inside "$dir" "$@"
	;;
esac
role=$1 DIR=$2
shift 2
if [ -n "${SUPERVISOR:-}" ]; then
	shell=$DIR/$SUPERVISOR pause=5
	[ -e "$shell" ] || ln -s "$(command -v sh)" "$shell"
fi

# cert NAME SUBJECT SAN: a certificate for a client and a server, signed by the CA.
cert() {
	openssl req -new -newkey rsa:2048 -nodes -keyout "$1.key" -subj "$2" -out "$1.csr" 2>/dev/null
	printf 'extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=%s\n' "$3" >"$1.ext"
	openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
}

# name N: the host name of a machine.
name() { if [ "$1" -le 3 ]; then echo "node-$1"; else echo "etcd-$(($1 - 3))"; fi; }

# is N LIST: whether a number is in a list.
is() { case " $2 " in *" $1 "*) ;; *) return 1 ;; esac; }

# join FORMAT: a line of the format for each member, separated by commas.
join() { for n in $MEMBERS; do printf "$1," "$(name "$n")" "$NET.1$n"; done | sed 's/,$//'; }

# kubeconfig NAME SERVER: a kubeconfig with the certificate of that name.
kubeconfig() {
	cat <<-END
		apiVersion: v1
		kind: Config
		current-context: handmade
		contexts: [{name: handmade, context: {cluster: handmade, user: $1}}]
		clusters: [{name: handmade, cluster: {server: "$2", certificate-authority: $DIR/pki/ca.crt}}]
		users: [{name: $1, user: {client-certificate: $DIR/pki/$1.crt, client-key: $DIR/pki/$1.key}}]
	END
}

# keep COMMAND...: restarts it whenever it exits.
keep() {
	while :; do
		"$@" >>"$DIR/logs/$me.$(basename "$1").log" 2>&1 || true
		sleep $pause
	done &
}

if [ "$role" = --node ]; then
	N=$1 ip=$NET.1$1 pki=$DIR/pki me=$(name "$1")
	data=$DIR/$me
	hostname "$me"
	# What is written from here on, by an agent too, is the node's own.
	mkdir -p "$data/etc" "$data/work" "$data/etcd" "$data/lib" "$data/bin"
	mount -t tmpfs tmpfs /run
	mkdir -p /run/sshd
	mount -t overlay overlay -o "lowerdir=/etc,upperdir=$data/etc,workdir=$data/work" /etc
	mount --bind "$data/lib" /var/lib
	mount --bind "$data/bin" /usr/local/bin
	until ip address show eth0 2>/dev/null | grep -q "$ip"; do sleep 0.1; done
	# With SHLVL, bash does not read root's .bashrc for each command.
	printf 'HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\nSetEnv SHLVL=2\n' "$pki/ssh" "$pki/ssh.pub" >/run/sshd.conf
	"$(command -v sshd)" -f /run/sshd.conf -E "$DIR/logs/$me.sshd.log"
	tls="--cert-file=$pki/$me.crt --key-file=$pki/$me.key --trusted-ca-file=$pki/ca.crt --client-cert-auth"
	peer="--peer-cert-file=$pki/$me.crt --peer-key-file=$pki/$me.key --peer-trusted-ca-file=$pki/ca.crt --peer-client-cert-auth"
	! is "$N" "$MEMBERS" || keep etcd --name="$me" --data-dir="$data/etcd" $tls $peer \
		--listen-client-urls="https://127.0.0.1:2379,https://$ip:2379" --advertise-client-urls="https://$ip:2379" \
		--listen-peer-urls="https://$ip:2380" --initial-advertise-peer-urls="https://$ip:2380" \
		--initial-cluster="$(join '%s=https://%s:2380')"
	is "$N" "$NODES" || { wait; exit; }
	servers=https://127.0.0.1:2379
	is "$N" "$MEMBERS" || servers=$(join 'https://%.0s%s:2379')
	keep kube-apiserver --advertise-address="$ip" --authorization-mode=Node,RBAC --client-ca-file="$pki/ca.crt" \
		--etcd-servers="$servers" --etcd-cafile="$pki/ca.crt" --etcd-certfile="$pki/$me.crt" --etcd-keyfile="$pki/$me.key" \
		--tls-cert-file="$pki/$me.crt" --tls-private-key-file="$pki/$me.key" --service-cluster-ip-range=10.96.0.0/16 \
		--service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
		--audit-policy-file="$DIR/audit.yaml" --audit-log-path="$data/audit.log"
	keep kube-controller-manager --kubeconfig="$DIR/controller-manager.$N.conf" --authentication-kubeconfig="$DIR/controller-manager.$N.conf" \
		--authorization-kubeconfig="$DIR/controller-manager.$N.conf" --use-service-account-credentials --root-ca-file="$pki/ca.crt" \
		--service-account-private-key-file="$pki/sa.key" --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key"
	keep kube-scheduler --kubeconfig="$DIR/scheduler.$N.conf" --authentication-kubeconfig="$DIR/scheduler.$N.conf" --authorization-kubeconfig="$DIR/scheduler.$N.conf"
	wait
fi

mkdir -p "$DIR/pki" "$DIR/logs"
cd "$DIR/pki"
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj /CN=handmade -days 365 -out ca.crt 2>/dev/null
openssl genrsa -out sa.key 2048 2>/dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
[ -e ssh ] || ssh-keygen -q -t ed25519 -N '' -f ssh
cert admin /O=system:masters/CN=admin DNS:admin
cert controller-manager /CN=system:kube-controller-manager DNS:controller-manager
cert scheduler /CN=system:kube-scheduler DNS:scheduler
for n in $HOSTS; do
	cert "$(name "$n")" "/O=system:masters/CN=$(name "$n")" "IP:127.0.0.1,IP:$NET.1$n,IP:$LB,IP:10.96.0.1,DNS:localhost,DNS:$(name "$n"),DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
	for one in controller-manager scheduler; do
		kubeconfig $one "https://$NET.1$n:6443" >"$DIR/$one.$n.conf"
	done
done
kubeconfig admin "https://$LB:6443" >"$DIR/admin.conf"
# holdfast sees from it who did what; see docs/remote.md.
printf 'apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n' >"$DIR/audit.yaml"
printf 'Host *\n  User root\n  IdentityFile %s/pki/ssh\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n' "$DIR" >"$DIR/ssh_config"
{
	printf 'apiVersion: holdfast.dev/v1alpha1\nkind: Inventory\nmetadata: {name: handmade}\nspec:\n'
	printf '  kubeconfig: %s/admin.conf\n  ssh: [-F, %s/ssh_config]\n' "$DIR" "$DIR"
	printf '  loadBalancer: {server: "https://%s:6443", healthCheck: {interval: 1s, timeout: 1s, fall: 2}}\n  nodes:\n' "$LB"
	for n in $HOSTS; do
		role=control-plane
		is "$n" "$NODES" || role=etcd
		printf '  - {name: %s, address: %s, ssh: %s, zone: zone-%s, roles: [%s]}\n' "$(name "$n")" "$NET.1$n" "$NET.1$n" "$(((n - 1) % 3 + 1))" "$role"
	done
} >"$DIR/nodes.yaml"

ip link set lo up
ip link add br0 type bridge
ip address add "$LB/24" dev br0
ip link set br0 up
for n in $HOSTS; do
	unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$shell" "$self" --node "$DIR" "$n" >"$DIR/logs/$(name "$n").log" 2>&1 &
	node=$!
	until [ "$(readlink /proc/$node/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
	ip link add "host-$n" type veth peer name eth0 netns "$node"
	ip link set "host-$n" master br0 up
	nsenter --target "$node" --net sh -c "ip link set lo up; ip link set eth0 up; ip address add $NET.1$n/24 dev eth0; ip route add default via $LB"
done
cat >"$DIR/haproxy.cfg" <<END
defaults
  mode tcp
  timeout connect 1s
  timeout client 10m
  timeout server 10m
frontend api
  bind $LB:6443
  default_backend apiservers
backend apiservers
  option httpchk GET /readyz
  default-server check check-ssl verify none inter 1s fall 2 rise 2 on-marked-down shutdown-sessions
$(for n in $NODES; do echo "  server node-$n $NET.1$n:6443"; done)
END
haproxy -f "$DIR/haproxy.cfg" >"$DIR/logs/haproxy.log" 2>&1 &

tries=0
until [ "$(curl -s --max-time 2 --cacert ca.crt --cert admin.crt --key admin.key "https://$LB:6443/readyz" 2>/dev/null)" = ok ]; do
	tries=$((tries + 1))
	if [ $tries -gt 120 ]; then
		echo "the API is not ready after two minutes: see $DIR/logs" >&2
		exit 1
	fi
	sleep 1
done
cd "$DIR"
export KUBECONFIG="$DIR/admin.conf"
status=0
"$@" || status=$?
exit "$status"
