//! Eviction above the limits.

use super::*;

/// Four unauthenticated connections, two of one address, and two admitted ones.
const LIMITS: ConnectionLimits = ConnectionLimits {
    unauthenticated: 4,
    unauthenticated_per_address: 2,
    admitted: 2,
    admitted_per_client: 2,
    reserved: 0,
    handshake: Duration::from_secs(10),
    silence: Duration::from_secs(20),
};

const READER: Claimant<'_> = Claimant { name: Some("reader"), operates: false };

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
    assert!(stream.admit() && client.admit_client(READER).is_ok());
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
    assert_eq!(places.iter().map(|slot| slot.admit_client(READER).is_ok()).collect::<Vec<_>>(), [true, true, false]);
    let mut places = places;
    drop(places.remove(0));
    assert_eq!(places[1].admit_client(READER), Ok(()));
    drop(places);
    let state = connections.state();
    assert_eq!((state.admitted, state.unauthenticated.len(), state.per_address.len()), (0, 0, 0));
    assert!(state.per_client.is_empty());
}

#[test]
fn a_client_has_a_share_of_the_slots_and_the_last_ones_are_for_those_who_operate() {
    let limits = ConnectionLimits { admitted: 8, admitted_per_client: 3, reserved: 2, ..LIMITS };
    let connections = Connections::new(limits);
    let now = Instant::now();
    let ask = |claimant: Claimant<'_>| {
        let slot = connections.open(address(1), now);
        slot.admit_client(claimant).map(|()| slot)
    };
    let client = |name, operates| Claimant { name: Some(name), operates };
    let mut held: Vec<_> = (0..3).map(|_| ask(READER).expect("its share")).collect();
    assert_eq!(ask(READER).err(), Some(NoSlot::Share(3)));
    // A second request on an admitted connection needs no other slot.
    assert_eq!(held[0].admit_client(READER), Ok(()));
    held.extend((0..3).map(|_| ask(client("other", false)).expect("its share")));
    assert_eq!(ask(client("third", false)).err(), Some(NoSlot::Full), "six of eight: the last two are reserved");
    let operator = ask(client("on-call", true)).expect("a reserved slot");
    let replica = ask(Claimant { name: None, operates: true }).expect("the other one");
    assert_eq!(ask(client("on-call", true)).err(), Some(NoSlot::Full));
    drop((operator, replica, held.remove(0)));
    assert!(ask(READER).is_ok(), "its own slot is free again");
}

/// Without a share one client takes what is not reserved, which the test above would detect.
#[test]
fn sabotage_without_a_share_one_client_takes_all_slots() {
    let limits = ConnectionLimits { admitted: 8, admitted_per_client: usize::MAX, reserved: 0, ..LIMITS };
    let connections = Connections::new(limits);
    // One after the other: above two unauthenticated connections of an address the oldest is evicted.
    let ask = || {
        let slot = connections.open(address(1), Instant::now());
        slot.admit_client(READER).map(|()| slot)
    };
    let slots: Vec<_> = (0..8).filter_map(|_| ask().ok()).collect();
    assert_eq!(slots.len(), 8);
    let operator = connections.open(address(2), Instant::now());
    assert_eq!(operator.admit_client(Claimant { name: Some("on-call"), operates: true }), Err(NoSlot::Full));
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
    assert_eq!((pages.admitted_per_client, pages.reserved, agents.reserved), (8, 2, 22));
    let many = ConnectionLimits::grpc(1_048_576);
    assert_eq!((many.unauthenticated, many.admitted), (1_024, 16_384));
}
