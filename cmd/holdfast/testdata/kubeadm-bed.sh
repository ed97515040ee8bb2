# Makes a control plane with kind that holdfast knows nothing of: kubeadm's, three nodes that can
# be reached with ssh, and a worker. Runs in the network of the Docker engine, with kind in PATH.
# Arguments: node image, public key, cluster name, etcd's quota in bytes. Writes kubeconfig and nodes.txt (NAME ADDRESS)
# to the current directory, and the balancer's address to balancer.txt.
set -eu
image=$1 key=$2 name=$3 quota=${4:-2147483648}

cat >kind.yaml <<EOF
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking: {disableDefaultCNI: true, kubeProxyMode: nftables}
nodes:
- {role: control-plane, image: "$image"}
- {role: control-plane, image: "$image"}
- {role: control-plane, image: "$image"}
- {role: worker, image: "$image"}
containerdConfigPatches: # as holdfast's own provider has it
- |
  [plugins."io.containerd.cri.v1.runtime"]
    stats_collect_period = "1h"
kubeadmConfigPatches:
- |
  kind: KubeletConfiguration
  failCgroupV1: false
- |
  kind: InitConfiguration
  skipPhases: [preflight]
- |
  kind: JoinConfiguration
  skipPhases: [preflight]
- |
  kind: ClusterConfiguration
  apiServer: {extraEnvs: [{name: GOMAXPROCS, value: "1"}, {name: GOGC, value: "400"}]}
  controllerManager: {extraEnvs: [{name: GOMAXPROCS, value: "1"}, {name: GOGC, value: "400"}]}
  scheduler: {extraEnvs: [{name: GOMAXPROCS, value: "1"}, {name: GOGC, value: "400"}]}
  etcd: {local: {extraEnvs: [{name: GOMAXPROCS, value: "1"}], extraArgs: [{name: quota-backend-bytes, value: "$quota"}]}}
EOF
kind create cluster --name "$name" --config kind.yaml --kubeconfig kind.kubeconfig --wait 5m

address() { docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$1"; }

# sshd from this machine, with its libraries.
sshd=/usr/sbin/sshd
files=$(ldd $sshd | awk '$(NF-1) ~ /^\// {print $(NF-1)}')
rm -f hostkey
ssh-keygen -q -t ed25519 -N '' -f hostkey
: >nodes.txt
for node in $(kind get nodes --name "$name" | grep control-plane | sort); do
  tar -chf - -C / ${sshd#/} $(printf '%s\n' $files | sed 's#^/##') | docker exec -i "$node" tar -xf - -C / --keep-directory-symlink
  docker exec -i "$node" sh -c 'mkdir -p /run/sshd /etc/bed && cat >/etc/bed/hostkey && chmod 600 /etc/bed/hostkey' <hostkey
  docker exec -i "$node" sh -c 'cat >/etc/bed/authorized' <"$key"
  docker exec -i "$node" sh -ec '
    grep -q ^sshd: /etc/passwd || echo sshd:x:74:65534::/run/sshd:/usr/sbin/nologin >>/etc/passwd
    printf "HostKey /etc/bed/hostkey\nAuthorizedKeysFile /etc/bed/authorized\nStrictModes no\nUsePAM no\nPidFile none\n" >/etc/bed/sshd.conf
    printf "[Service]\nRuntimeDirectory=sshd\nExecStart=/usr/sbin/sshd -D -f /etc/bed/sshd.conf\n[Install]\nWantedBy=multi-user.target\n" >/etc/systemd/system/bed-sshd.service
    systemctl enable --now bed-sshd.service'
  echo "$node $(address "$node")" >>nodes.txt
done
address "$name-external-load-balancer" >balancer.txt
kind get kubeconfig --name "$name" --internal |
  sed "s#server: https://$name-external-load-balancer:6443#server: https://$(cat balancer.txt):6443\n    tls-server-name: $name-external-load-balancer#" >kubeconfig
chmod 600 kubeconfig
