//! Host ports of containers that run with the pod: ordinary ones and sidecars.

use std::collections::BTreeSet;

use model::{HostPort, Text};

use super::resources::is_sidecar;
use crate::Cursor;

const PROTOCOLS: [(&str, &str); 3] = [("TCP", "TCP"), ("UDP", "UDP"), ("SCTP", "SCTP")];

/// Host ports of the specification at `at`, sorted. With `hostNetwork` every container port is a
/// host port.
pub fn read(at: &Cursor<'_>, host_network: bool) -> Vec<HostPort> {
    let mut ports = BTreeSet::new();
    let sidecars = at.at("initContainers").list().into_iter().filter(is_sidecar);
    for container in at.at("containers").list().into_iter().chain(sidecars) {
        for port in container.at("ports").list() {
            if let Some(host_port) = read_one(&port, host_network)
                && !ports.insert(host_port.clone())
            {
                port.at("hostPort")
                    .error(format!("host port {}/{} occurs twice in the pod", host_port.port, host_port.protocol));
            }
        }
    }
    ports.into_iter().collect()
}

fn read_one(at: &Cursor<'_>, host_network: bool) -> Option<HostPort> {
    let container = at.at("containerPort").required().int_within(1, 65_535);
    let written = at.at("hostPort").int_within(0, 65_535).filter(|port| *port > 0);
    let protocol = if at.at("protocol").exists() { at.at("protocol").one_of(&PROTOCOLS)? } else { "TCP" };
    if let (true, Some(host), Some(container)) = (host_network, written, container)
        && host != container
    {
        at.at("hostPort").error(format!("found {host}, allowed with hostNetwork: the containerPort, {container}"));
    }
    let port = written.or(container.filter(|_| host_network))?;
    let ip: Text = at.at("hostIP").text().unwrap_or_default();
    Some(HostPort { ip, protocol: protocol.into(), port: u16::try_from(port).ok()? })
}
