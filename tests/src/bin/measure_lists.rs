//! Measures the API of running servers: how long the first page of each list takes at each of them, and what watches cost.
//!
//! ```text
//! cargo run --release -p e2e --bin measure_lists -- --requests 200 --watches 20 --pid 4711 127.0.0.1:7480 127.0.0.1:7481
//! ```
//!
//! `fleetwright-sim simulate load --target … --page …` gives a server its clusters. Watches are opened at the last address, and
//! `--pid` is the process whose CPU time is read, with and without them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use e2e::cpu_share;

/// What is asked for: the first page of each list, a filter, and orders that are not that of the names.
const LISTS: [&str; 9] = [
    "/v1/clusters?pageSize=100",
    "/v1/clusters?pageSize=100&orderBy=price_micro_usd_per_hour%20desc",
    "/v1/clusters/-/pools?pageSize=100",
    "/v1/clusters/-/nodes?pageSize=100",
    "/v1/clusters/-/nodes?pageSize=100&orderBy=pod_count%20desc",
    "/v1/clusters/-/nodes?pageSize=100&filter=zone%20=%20us-east-1a%20AND%20pod_count%20%3E%2020",
    "/v1/clusters/-/namespaces/-/pods?pageSize=100",
    "/v1/clusters/-/decisions?pageSize=100",
    "/v1/offerings?pageSize=100",
];

/// How long the CPU time is compared, without watches and with them.
const COMPARED: Duration = Duration::from_secs(30);

struct Arguments {
    requests: usize,
    watches: usize,
    pid: Option<u32>,
    servers: Vec<String>,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut read = Arguments { requests: 200, watches: 20, pid: None, servers: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().with_context(|| format!("{word} requires a number"));
        match word.as_str() {
            "--requests" => read.requests = number()?.parse()?,
            "--watches" => read.watches = number()?.parse()?,
            "--pid" => read.pid = Some(number()?.parse()?),
            _ => read.servers.push(word),
        }
    }
    if read.servers.is_empty() {
        bail!("name the HTTP address of at least one server");
    }
    Ok(read)
}

fn open(server: &str, path: &str, accept: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n")?;
    Ok(stream)
}

fn get(server: &str, path: &str) -> anyhow::Result<String> {
    let mut answer = String::new();
    open(server, path, "application/json")?.read_to_string(&mut answer)?;
    if !answer.starts_with("HTTP/1.1 200") {
        bail!("{server}{path}: {}", answer.lines().next().unwrap_or_default());
    }
    Ok(answer)
}

fn measure(server: &str, path: &str, requests: usize) -> anyhow::Result<String> {
    let mut times = Vec::with_capacity(requests);
    let mut bytes = 0;
    for _ in 0..requests {
        let begun = Instant::now();
        bytes = get(server, path)?.len();
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    Ok(format!("p50 {:6.1} ms  p99 {:6.1} ms  max {:6.1} ms  {bytes:>8} B", at(50), at(99), at(100)))
}

/// Reads a watch of clusters until the process ends.
fn watch(server: String, token: String) -> anyhow::Result<()> {
    let path = format!("/v1/clusters:watch?minInterval=1s&resumeToken={token}");
    let stream = open(&server, &path, "text/event-stream")?;
    for line in BufReader::new(stream).lines() {
        line?;
    }
    bail!("the watch ended")
}

fn main() -> anyhow::Result<()> {
    let Arguments { requests, watches, pid, servers } = arguments()?;
    for server in &servers {
        for path in LISTS {
            println!("{server}  {}  {path}", measure(server, path, requests)?);
        }
    }
    let (Some(pid), Some(server)) = (pid, servers.last()) else { return Ok(()) };
    let alone = cpu_share(pid, COMPARED)?;
    let answer = get(server, "/v1/clusters?pageSize=1")?;
    let token = answer.split("\"resumeToken\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    for _ in 0..watches {
        let (server, token) = (server.clone(), token.to_owned());
        std::thread::spawn(move || watch(server, token).map_err(|error| eprintln!("{error:#}")));
    }
    let watched = cpu_share(pid, COMPARED)?;
    println!(
        "process {pid}: {:.1} % of a processor without watches, {:.1} % with {watches}: {:+.1} points",
        alone * 100.0,
        watched * 100.0,
        (watched - alone) * 100.0
    );
    Ok(())
}
