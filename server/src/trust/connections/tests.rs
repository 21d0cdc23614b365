//! Who gives way when there are too many.

use super::*;

/// Four strangers, two of one address, and two admitted.
const LIMITS: ConnectionLimits = ConnectionLimits {
    strangers: 4,
    strangers_per_address: 2,
    admitted: 2,
    handshake: Duration::from_secs(10),
    silence: Duration::from_secs(20),
};

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn closed(places: &[Arc<Place>]) -> Vec<bool> {
    places.iter().map(|place| place.ended().is_cancelled()).collect()
}

#[test]
fn the_oldest_stranger_of_the_address_with_the_most_gives_way() {
    let connections = Connections::new(LIMITS);
    let now = Instant::now();
    let open = |last| connections.open(address(last), now);
    let places = [open(1), open(2), open(2), open(3)];
    assert_eq!(closed(&places), [false; 4]);
    let _third = open(2);
    assert_eq!(closed(&places), [false, true, false, false], "two of one address, the oldest gives way");
    let _fifth = open(4);
    assert_eq!(closed(&places), [false, true, true, false], "four in all: address 2 holds the most");
}

#[test]
fn whoever_is_admitted_never_gives_way_to_a_stranger() {
    let connections = Connections::new(LIMITS);
    let now = Instant::now();
    let agent = connections.open(address(1), now);
    let client = connections.open(address(1), now);
    let stream = agent.begin_agent().unwrap();
    assert!(stream.admit() && client.admit_client());
    let strangers: Vec<_> = (0..100).map(|_| connections.open(address(1), now)).collect();
    assert_eq!(closed(&[agent.clone(), client]), [false, false]);
    assert_eq!(strangers.iter().filter(|place| !place.ended().is_cancelled()).count(), 2);
    drop(stream);
    let _more = [connections.open(address(1), now), connections.open(address(1), now)];
    assert!(agent.ended().is_cancelled(), "an agent whose stream has ended is a stranger again");
}

#[test]
fn places_of_the_admitted_are_counted_too_and_given_back() {
    let connections = Connections::new(LIMITS);
    let now = Instant::now();
    let places: Vec<_> = (1..=3).map(|last| connections.open(address(last), now)).collect();
    assert_eq!(places.iter().map(|place| place.admit_client()).collect::<Vec<_>>(), [true, true, false]);
    let mut places = places;
    drop(places.remove(0));
    assert!(places[1].admit_client());
    drop(places);
    let state = connections.state();
    assert_eq!((state.admitted, state.strangers.len(), state.per_address.len()), (0, 0, 0));
}

#[test]
fn a_connection_carries_one_stream_of_an_agent_at_a_time() {
    let connections = Connections::new(LIMITS);
    let place = connections.open(address(1), Instant::now());
    let first = place.begin_agent().unwrap();
    assert!(place.begin_agent().is_none());
    drop(first);
    assert!(place.begin_agent().is_some());
}

#[test]
fn whoever_asks_nothing_for_too_long_is_closed() {
    let connections = Connections::new(LIMITS);
    let now = Instant::now();
    let (silent, probe) = (connections.open(address(1), now), connections.open(address(2), now));
    probe.known();
    connections.close_silent(now + Duration::from_secs(19));
    assert!(!silent.ended().is_cancelled());
    connections.close_silent(now + Duration::from_secs(20));
    assert!(silent.ended().is_cancelled() && !probe.ended().is_cancelled());
}

/// The sabotage `unbounded`: with limits that nothing reaches, strangers are never closed, which the tests above would notice.
#[test]
fn without_limits_every_stranger_keeps_its_place() {
    let unbounded = ConnectionLimits { strangers: usize::MAX, strangers_per_address: usize::MAX, ..LIMITS };
    let connections = Connections::new(unbounded);
    let now = Instant::now();
    let places: Vec<_> = (0..100).map(|_| connections.open(address(1), now)).collect();
    assert!(closed(&places).iter().all(|closed| !closed));
}

#[test]
fn limits_leave_files_for_everything_else() {
    let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max open files            256                  4096                 files     \n";
    assert_eq!((files(table), files("")), (256, 1_024));
    // 176 + 16 for agents and 16 + 16 for pages are 224 of 256.
    let (agents, pages) = (ConnectionLimits::agents(256), ConnectionLimits::pages(256));
    assert_eq!((agents.strangers, agents.strangers_per_address, agents.admitted), (16, 8, 176));
    assert_eq!((pages.strangers, pages.admitted), (16, 16));
    let many = ConnectionLimits::agents(1_048_576);
    assert_eq!((many.strangers, many.admitted), (1_024, 16_384));
}
