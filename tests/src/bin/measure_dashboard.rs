//! Measures the dashboard of a running server in a real browser: first paint, how far behind updates are, bytes of a viewer, and
//! what viewers and scrapes of the metrics cost the server.
//!
//! ```text
//! cargo run --release -p e2e --bin measure_dashboard -- --viewers 20 --pid 4711 127.0.0.1:7480
//! ```
//!
//! `fleetwright-sim simulate load --target … --page …` gives a server its clusters. `--pid` is the process whose CPU time is read,
//! with and without viewers, by pairs whose order alternates; a viewer sends the requests of the page. The fleet is frozen and thawed
//! again, and the time until the browser shows it is how far behind the page is.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use e2e::{Browser, cpu_share};

/// How often a view is opened, and the fleet is frozen.
const REPEATS: usize = 20;

/// How long bytes are counted, and CPU time is compared.
const COMPARED: Duration = Duration::from_secs(30);

/// Pairs of times with and without viewers. What the server does for its clusters varies more than what viewers cost.
const PAIRS: usize = 5;

/// Longest time until the browser shows something.
const DEADLINE: Duration = Duration::from_secs(30);

/// Views of the fleet, and a word that is there once its data is.
const VIEWS: [(&str, &str); 2] = [("/", "as of"), ("/clusters", "as of")];

/// What the first view reads again and again, and how often.
const POLLED: [(&str, Duration); 2] =
    [("/v1/problems?pageSize=200", Duration::from_millis(500)), ("/v1/serverInfo", Duration::from_secs(5))];

struct Arguments {
    viewers: usize,
    pid: Option<u32>,
    /// This process is the viewers of another one.
    only_view: bool,
    server: String,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut read = Arguments { viewers: 20, pid: None, only_view: false, server: String::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().with_context(|| format!("{word} requires a number"));
        match word.as_str() {
            "--viewers" => read.viewers = number()?.parse()?,
            "--pid" => read.pid = Some(number()?.parse()?),
            "--only-view" => read.only_view = true,
            _ => read.server = word,
        }
    }
    if read.server.is_empty() {
        bail!("name the HTTP address of a server");
    }
    Ok(read)
}

/// Sends a request on a connection of its own.
fn send(server: &str, head: &str, body: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let length = body.len();
    write!(
        stream,
        "{head}Host: {server}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    Ok(stream)
}

fn answer(server: &str, head: &str, body: &str) -> anyhow::Result<String> {
    let mut answer = String::new();
    send(server, head, body)?.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The value of a JSON member or a header, up to the mark after it.
fn after<'a>(text: &'a str, before: &str, end: char) -> &'a str {
    text.split(before).nth(1).and_then(|rest| rest.split(end).next()).unwrap_or_default().trim()
}

fn show(what: &str, mut values: Vec<f64>, unit: &str) {
    values.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| values[(values.len() * percent / 100).min(values.len() - 1)];
    println!("{what}: p50 {:.2} {unit}, p95 {:.2} {unit}, max {:.2} {unit}", at(50), at(95), at(100));
}

/// Milliseconds until the page has `word`, from when it is asked for.
fn open(browser: &mut Browser, url: &str, word: &str) -> (f64, f64) {
    browser.open("about:blank");
    browser.open(url);
    browser.wait_for(&[word]);
    let painted = browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0");
    let shown = browser.evaluate("performance.now()");
    (painted.as_f64().unwrap_or_default(), shown.as_f64().unwrap_or_default())
}

/// Seconds from the server's answer until the page shows a freeze, and until it no longer shows it.
fn behind(browser: &mut Browser, server: &str, number: usize) -> anyhow::Result<[f64; 2]> {
    let reason = format!("measured {number}");
    let frozen =
        answer(server, "POST /v1/freezes HTTP/1.1\r\n", &format!("{{\"reason\":\"{reason}\",\"ttl\":\"60s\"}}"))?;
    let begun = Instant::now();
    let id = after(&frozen, "\"name\":\"freezes/", '"').to_owned();
    let wait = |browser: &mut Browser, is_shown: bool| -> anyhow::Result<f64> {
        let begun = Instant::now();
        while (browser.evaluate(&format!("document.body.innerText.includes('{reason}')")) == true) != is_shown {
            if begun.elapsed() > DEADLINE {
                bail!("the page never changed for freeze {id}: {frozen}");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(begun.elapsed().as_secs_f64())
    };
    let shown = wait(browser, true)?.max(begun.elapsed().as_secs_f64());
    answer(server, &format!("DELETE /v1/freezes/{id} HTTP/1.1\r\n"), "")?;
    Ok([shown, wait(browser, false)?])
}

/// Polls as the page does until the process ends: on one connection, and an entity tag spares the answer.
fn poll(server: &str, path: &str, every: Duration) -> anyhow::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(server)?);
    let mut tag = String::new();
    loop {
        let begun = Instant::now();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nIf-None-Match: {tag}\r\n\r\n");
        stream.get_mut().write_all(request.as_bytes())?;
        tag = read_answer(&mut stream)?;
        thread::sleep(every.saturating_sub(begun.elapsed()).max(every / 2));
    }
}

/// Reads an answer to its end. Returns its entity tag.
fn read_answer(stream: &mut BufReader<TcpStream>) -> anyhow::Result<String> {
    let (mut tag, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            bail!("the server has closed the connection");
        }
        match line.trim_end().split_once(": ") {
            None if line.trim_end().is_empty() => break,
            Some(("etag", value)) => value.clone_into(&mut tag),
            Some(("content-length", value)) => length = value.parse()?,
            Some(("transfer-encoding", _)) => bail!("the answer has no length"),
            _ => {}
        }
    }
    io::copy(&mut stream.by_ref().take(length), &mut io::sink())?;
    Ok(tag)
}

/// How long a scrape of the metrics takes, and how much it reads.
fn scrape(server: &str) -> anyhow::Result<()> {
    let (mut times, mut text) = (Vec::new(), String::new());
    for _ in 0..REPEATS {
        let begun = Instant::now();
        text = answer(server, "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n", "")?;
        times.push(begun.elapsed().as_secs_f64());
    }
    let series = text.lines().filter(|line| line.starts_with("fleetwright_") || line.starts_with("karpenter_")).count();
    println!("/metrics: {series} series in {:.1} MB", text.len() as f64 / 1e6);
    show("/metrics", times, "s");
    Ok(())
}

fn watch(server: &str) -> anyhow::Result<()> {
    let first = answer(server, "GET /v1/clusters?pageSize=1 HTTP/1.1\r\n", "")?;
    let token = after(&first, "\"resumeToken\":\"", '"');
    let path = format!("/v1/clusters:watch?minInterval=0.5s&resumeToken={token}&{CLUSTER_FIELDS}");
    let stream = send(server, &format!("GET {path} HTTP/1.1\r\n"), "")?;
    for line in BufReader::new(stream).lines() {
        line?;
    }
    bail!("the watch ended")
}

const CLUSTER_FIELDS: &str = "$fields=clusters.name,clusters.stale,clusters.observe_time,clusters.connected,clusters.synced,\
     clusters.node_count,clusters.machine_count,clusters.pod_count,clusters.pending_pod_count,\
     clusters.price_micro_usd_per_hour,clusters.blocked_reason,deleted,resume_token";

fn main() -> anyhow::Result<()> {
    let Arguments { viewers, pid, only_view, server } = arguments()?;
    if only_view {
        view(viewers, &server);
    }
    let url = format!("http://{server}");
    scrape(&server)?;
    let mut browser = Browser::start("measure_dashboard").context("no browser is installed")?;
    for (path, word) in VIEWS {
        let opened: Vec<(f64, f64)> = (0..REPEATS).map(|_| open(&mut browser, &format!("{url}{path}"), word)).collect();
        show(&format!("{path} first paint"), opened.iter().map(|(painted, _)| *painted).collect(), "ms");
        show(&format!("{path} with its data"), opened.iter().map(|(_, shown)| *shown).collect(), "ms");
        browser.count_bytes();
        thread::sleep(COMPARED);
        let bytes = browser.received_bytes() as f64;
        println!("{path} {:.1} kB a second", bytes / 1_000.0 / COMPARED.as_secs_f64());
    }
    // Of a thousand problems a freeze is the last, and not shown.
    open(&mut browser, &format!("{url}/capacity"), "Nothing is frozen");
    let times: Vec<[f64; 2]> =
        (0..REPEATS).map(|number| behind(&mut browser, &server, number)).collect::<Result<_, _>>()?;
    show("behind", times.into_iter().flatten().collect(), "s");
    let Some(pid) = pid else { return Ok(()) };
    drop(browser);
    compare(pid, viewers, &server)
}

/// Views the dashboard until the process ends.
fn view(viewers: usize, server: &str) -> ! {
    for _ in 0..viewers {
        for (path, every) in POLLED {
            let server = server.to_owned();
            thread::spawn(move || poll(&server, path, every).map_err(|error| eprintln!("{error:#}")));
        }
        let server = server.to_owned();
        thread::spawn(move || watch(&server).map_err(|error| eprintln!("{error:#}")));
    }
    loop {
        thread::park();
    }
}

/// A process of viewers, which ends with this value.
struct Viewers(Child);

impl Viewers {
    fn start(viewers: usize, server: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--only-view", "--viewers", &viewers.to_string(), server]);
        Ok(Self(command.spawn().context("cannot start viewers")?))
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// What `viewers` cost the process, by pairs.
fn compare(pid: u32, viewers: usize, server: &str) -> anyhow::Result<()> {
    let mut differences = Vec::new();
    for pair in 0..PAIRS {
        let mut shares = [0.0; 2];
        for is_viewed in if pair % 2 == 0 { [false, true] } else { [true, false] } {
            let _viewers = is_viewed.then(|| Viewers::start(viewers, server)).transpose()?;
            shares[usize::from(is_viewed)] = cpu_share(pid, COMPARED)? * 100.0;
        }
        let [alone, viewed] = shares;
        let difference = viewed - alone;
        println!(
            "process {pid}: {alone:.1} % of a processor without viewers, {viewed:.1} % with {viewers}: {difference:+.1}"
        );
        differences.push(difference);
    }
    differences.sort_by(f64::total_cmp);
    println!(
        "median {:+.1} points, from {:+.1} to {:+.1}",
        differences[PAIRS / 2],
        differences[0],
        differences[PAIRS - 1]
    );
    Ok(())
}
