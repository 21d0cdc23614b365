//! Eviction above the limits.

use super::*;

/// Four unauthenticated connections, two of one address, and two admitted ones.
const LIMITS: ConnectionLimits = ConnectionLimits {
    unauthenticated: 4,
    unauthenticated_per_address: 2,
    admitted: 2,
    handshake: Duration::from_secs(10),
    silence: Duration::from_secs(20),
};

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn closed(places: &[Arc<ConnectionSlot>]) -> Vec<bool> {
    places.iter().map(|slot| slot.ended().is_cancelled()).collect()
}

#[test]
fn the_oldest_connection_of_the_address_with_the_most_is_evicted() {
    let connections = Connections::new(LIMITS);
    let now = Instant::now();
    let open = |last| connections.open(address(last), now);
    let places = [open(1), open(2), open(2), open(3)];
    assert_eq!(closed(&places), [false; 4]);
    let _third = open(2);
    assert_eq!(closed(&places), [false, true, false, false], "two of one address, the oldest is evicted");
    let _fifth = open(4);
    assert_eq!(closed(&places), [false, true, true, false], "four in all: address 2 holds the most");
}

#[test]
fn an_admitted_connection_is_never_evicted() {
    let connections = Connections::new(LIMITS);
    let now = Instant::now();
    let agent = connections.open(address(1), now);
    let client = connections.open(address(1), now);
    let stream = agent.open_agent_stream().unwrap();
    assert!(stream.admit() && client.admit_client());
    let unauthenticated: Vec<_> = (0..100).map(|_| connections.open(address(1), now)).collect();
    assert_eq!(closed(&[agent.clone(), client]), [false, false]);
    assert_eq!(unauthenticated.iter().filter(|slot| !slot.ended().is_cancelled()).count(), 2);
    drop(stream);
    let _more = [connections.open(address(1), now), connections.open(address(1), now)];
    assert!(agent.ended().is_cancelled(), "an agent without a stream is unauthenticated again");
}

#[test]
fn slots_of_admitted_connections_are_counted_and_released() {
    let connections = Connections::new(LIMITS);
    let now = Instant::now();
    let places: Vec<_> = (1..=3).map(|last| connections.open(address(last), now)).collect();
    assert_eq!(places.iter().map(|slot| slot.admit_client()).collect::<Vec<_>>(), [true, true, false]);
    let mut places = places;
    drop(places.remove(0));
    assert!(places[1].admit_client());
    drop(places);
    let state = connections.state();
    assert_eq!((state.admitted, state.unauthenticated.len(), state.per_address.len()), (0, 0, 0));
}

#[test]
fn a_connection_carries_one_stream_of_an_agent_at_a_time() {
    let connections = Connections::new(LIMITS);
    let slot = connections.open(address(1), Instant::now());
    let first = slot.open_agent_stream().unwrap();
    assert!(slot.open_agent_stream().is_none());
    drop(first);
    assert!(slot.open_agent_stream().is_some());
}

#[test]
fn a_connection_without_a_request_is_closed() {
    let connections = Connections::new(LIMITS);
    let now = Instant::now();
    let (silent, probe) = (connections.open(address(1), now), connections.open(address(2), now));
    probe.mark_active();
    connections.close_idle(now + Duration::from_secs(19));
    assert!(!silent.ended().is_cancelled());
    connections.close_idle(now + Duration::from_secs(20));
    assert!(silent.ended().is_cancelled() && !probe.ended().is_cancelled());
}

/// Mutation `unbounded`: with limits that nothing reaches, no connection is evicted, which the
/// tests above would detect.
#[test]
fn without_limits_no_connection_is_evicted() {
    let unbounded = ConnectionLimits { unauthenticated: usize::MAX, unauthenticated_per_address: usize::MAX, ..LIMITS };
    let connections = Connections::new(unbounded);
    let now = Instant::now();
    let places: Vec<_> = (0..100).map(|_| connections.open(address(1), now)).collect();
    assert!(closed(&places).iter().all(|closed| !closed));
}

#[test]
fn limits_leave_file_descriptors_for_everything_else() {
    let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max open files            256                  4096                 files     \n";
    assert_eq!((files(table), files("")), (256, 1_024));
    // 176 + 16 for gRPC and 16 + 16 for HTTP are 224 of 256.
    let (agents, pages) = (ConnectionLimits::grpc(256), ConnectionLimits::http(256));
    assert_eq!((agents.unauthenticated, agents.unauthenticated_per_address, agents.admitted), (16, 8, 176));
    assert_eq!((pages.unauthenticated, pages.admitted), (16, 16));
    let many = ConnectionLimits::grpc(1_048_576);
    assert_eq!((many.unauthenticated, many.admitted), (1_024, 16_384));
}
