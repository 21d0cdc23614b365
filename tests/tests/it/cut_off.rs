//! A recorded agent stream, truncated, corrupted and repeated. Other sessions continue.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use e2e::Program;

use crate::hostile::{SeededRng, start};
use crate::{SIMULATOR, TIMEOUT};

const REPEATS: u64 = 60;
/// Number of recorded bytes: a snapshot and the first results, which the simulated cluster sends
/// within seconds.
const ENOUGH: usize = 20_000;
/// Read timeout, for a server that keeps a corrupted connection open.
const LISTEN: Duration = Duration::from_millis(200);

/// Records the bytes of one connection from an agent to the server, until there are enough.
fn record(server: &str) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let agent = ["simulated-agent", "--server", &address, "--cluster-name", "recorded", "--seed", "2", "--log", "warn"];
    let agent = Program::new(SIMULATOR, &agent).start();
    let (mut from, _) = listener.accept().expect("the agent connects");
    let to = TcpStream::connect(server).expect("the server listens");
    let recorded_bytes = Arc::new(Mutex::new(Vec::new()));
    let recording = Arc::clone(&recorded_bytes);
    let (mut answers, mut back) = (to.try_clone().expect("a handle"), from.try_clone().expect("a handle"));
    let mut onward = to.try_clone().expect("a handle");
    thread::spawn(move || std::io::copy(&mut answers, &mut back));
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            recording.lock().expect("no holder of the lock panics").extend_from_slice(&buffer[..read]);
            if onward.write_all(&buffer[..read]).is_err() {
                return;
            }
        }
    });
    let end = Instant::now() + TIMEOUT;
    while recorded_bytes.lock().expect("no holder of the lock panics").len() < ENOUGH {
        assert!(Instant::now() < end, "the agent sends too few bytes");
        thread::park_timeout(Duration::from_millis(20));
    }
    drop(agent);
    drop(to.shutdown(Shutdown::Both));
    recorded_bytes.lock().expect("no holder of the lock panics").clone()
}

/// Sends a prefix; then nothing, or the rest with a few bytes changed.
fn repeat(server: &str, recorded: &[u8], seed: u64) {
    let mut rng = SeededRng(seed);
    let mut at = |most: usize| usize::try_from(rng.roll(most as u64)).unwrap_or(0);
    // One in four is cut in the first 600 bytes, where HTTP/2 begins.
    let cut = if seed.is_multiple_of(4) { at(600) } else { at(recorded.len()) };
    let mut bytes = recorded.to_vec();
    match at(3) {
        0 => bytes.truncate(cut),
        1 => bytes[cut..].iter_mut().take(64).for_each(|byte| *byte ^= 0x5a),
        _ => {
            let repeated = bytes[cut..].to_vec();
            bytes.extend(repeated);
        }
    }
    let Ok(mut stream) = TcpStream::connect(server) else { return };
    // The server may close the connection before all bytes are sent.
    drop(stream.write_all(&bytes));
    drop(stream.set_read_timeout(Some(LISTEN)));
    let mut buffer = [0; 4096];
    while matches!(stream.read(&mut buffer), Ok(1..)) {}
}

#[test]
fn a_truncated_corrupted_or_repeated_stream_disturbs_no_other_session() {
    let (server, address) = start();
    let agent = ["simulated-agent", "--server", &address, "--cluster-name", "good", "--seed", "1", "--log", "info"];
    let agent = Program::new(SIMULATOR, &agent).start();
    let _connected = server.wait_for_line(&["acquired cluster lease", "good"], TIMEOUT);
    let plain = address.trim_start_matches("http://").to_owned();
    let recorded = record(&plain);
    let repeats: Vec<_> = (0..4)
        .map(|part| {
            let (plain, recorded) = (plain.clone(), recorded.clone());
            thread::spawn(move || (part..REPEATS).step_by(4).for_each(|seed| repeat(&plain, &recorded, seed)))
        })
        .collect();
    repeats.into_iter().for_each(|one| one.join().expect("the repeating thread does not panic"));
    assert_eq!(server.stop(TIMEOUT), 0, "the server shuts down in order");
    let ended = agent.wait_for_line(&["disconnected from the server"], TIMEOUT);
    assert!(ended.contains("server is shutting down"), "the first disconnect is the shutdown of the server: {ended}");
}
