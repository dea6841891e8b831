#!/bin/sh
# What one node needs so that pods reach pods: the plugins' configuration with the node's own range of addresses, and a
# route to the range of each other node. Nodes of one kind cluster are on one bridge, so the next hop is the node itself.
# A node that is deleted and registers anew may have another range from then on.
set -eu

configure() {
  cat > /networks/.10-pod-network.new <<CONFIGURATION
{"cniVersion": "0.4.0", "name": "pod-network", "plugins": [
  {"type": "ptp", "ipMasq": true,
   "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state", "routes": [{"dst": "0.0.0.0/0"}],
            "ranges": [[{"subnet": "$1"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
CONFIGURATION
  mv /networks/.10-pod-network.new /networks/10-pod-network.conflist
}

account=/var/run/secrets/kubernetes.io/serviceaccount
row='{.metadata.name} {.spec.podCIDR} {.status.addresses[?(@.type=="InternalIP")].address}{"\n"}'
while :; do
  # One line for each node, and one more whenever anything of a node changes; the server ends a watch now and then.
  kubectl --server="https://$CONTROL_PLANE_ENDPOINT" --certificate-authority="$account/ca.crt" \
    --token="$(cat "$account/token")" get nodes --watch --output="jsonpath=$row" |
    while read -r name range address; do
      if [ -z "$range" ]; then
        continue
      elif [ "$name" != "$NODE" ]; then
        [ -n "$address" ] && busybox ip route replace "$range" via "$address"
      elif ! busybox grep -qsF "\"$range\"" /networks/10-pod-network.conflist; then
        configure "$range"
        busybox ip route del "$range" 2> /dev/null  # it may have been another node's
        echo "this node's pods have addresses of $range"
      fi
    done || true
  sleep 1
done
