# The node without its programs and images: Debian, systemd, containerd, and the files of kind's own node image, which
# are in `root` (read from kind's module) beside those of ours.
ARG BASE
FROM ${BASE}
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
       ca-certificates conntrack containerd containernetworking-plugins curl ethtool iproute2 iptables jq kmod mount \
       nftables pigz procps runc systemd util-linux \
    && rm -rf /var/lib/apt/lists/*
COPY root/ /
# Units that a container has no use for, or that would change what belongs to the machine. kind's units name programs
# where its own image has them.
RUN systemctl set-default multi-user.target \
    && systemctl mask --quiet systemd-binfmt.service systemd-logind.service systemd-networkd.service \
       systemd-remount-fs.service systemd-tmpfiles-setup.service systemd-udevd.service systemd-udev-trigger.service \
       systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-sysctl.service systemd-modules-load.service \
       systemd-firstboot.service systemd-hwdb-update.service systemd-timesyncd.service systemd-pstore.service \
       dev-hugepages.mount dev-mqueue.mount sys-fs-fuse-connections.mount sys-kernel-config.mount \
       sys-kernel-debug.mount sys-kernel-tracing.mount getty.target remote-fs.target apt-daily.timer \
       apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
    && systemctl enable --quiet containerd.service kubelet.service undo-mount-hacks.service \
    && echo 'ReadKMsg=no' >> /etc/systemd/journald.conf \
    && ln -sf /lib/systemd/systemd /sbin/init \
    && ln -s /usr/bin/containerd /usr/bin/containerd-shim-runc-v2 /usr/bin/ctr /usr/local/bin/ \
    && mkdir -p /opt/cni /etc/kubernetes/manifests && ln -s /usr/lib/cni /opt/cni/bin \
    && ctr oci spec \
       | jq 'del(.process.rlimits) | .hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}]' \
       > /etc/containerd/cri-base.json
ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]
