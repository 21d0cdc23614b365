//! moto's server: made once in a virtual environment, started on loopback, stopped by its process id.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::account::REGION;

const REQUIREMENT: &str = "moto[server]==5.2.5";

/// For about sixty packages; a machine whose network swallows packets must not hold up the other tests.
const INSTALL_LIMIT: Duration = Duration::from_secs(120);
/// It starts in seconds.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running server; dropping it ends its process.
#[derive(Debug)]
pub(crate) struct MotoServer {
    _process: Child,
    address: String,
}

impl MotoServer {
    /// Starts a server with an empty account.
    ///
    /// # Errors
    /// Why there is none on this machine.
    pub(crate) async fn start() -> Result<Self, String> {
        let environment = environment().await?;
        let mut command = Command::new(environment.join("bin/moto_server"));
        command.args(["-H", "127.0.0.1", "-p", "0"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.kill_on_drop(true).spawn().map_err(|error| format!("moto_server: {error}"))?;
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let listening = async {
            let mut last = String::new();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some((_, address)) = line.split_once("Running on http://") {
                    return Ok(address.trim().to_owned());
                }
                last = line;
            }
            Err(format!("moto_server has ended before it listened: {last}"))
        };
        let address = tokio::time::timeout(START_LIMIT, listening).await;
        let address = address.map_err(|_| format!("moto_server does not listen after {START_LIMIT:?}"))??;
        // It writes a line for each call, and must not wait for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { _process: process, address })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn reset(&self) {
        let answer = self.post("/moto-api/reset", "").await;
        assert!(answer.contains("\"ok\""), "{answer}");
    }

    /// Answer to an EC2 call with these parameters, without the SDK.
    pub(crate) async fn ec2(&self, form: &str) -> String {
        self.post("/", &format!("{form}&Version=2016-11-15")).await
    }

    /// Header and body of the answer. moto finds service and region in the signature, which it does not check.
    async fn post(&self, path: &str, body: &str) -> String {
        let signature = format!("AWS4-HMAC-SHA256 Credential=AKIDTEST/20260102/{REGION}/ec2/aws4_request");
        let request = format!(
            "POST {path} HTTP/1.0\r\nHost: {}\r\nAuthorization: {signature}, SignedHeaders=host, Signature=none\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut connection = TcpStream::connect(&self.address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

/// The virtual environment, which is complete when its mark exists.
async fn environment() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moto-5.2.5");
    let (mark, root) = (folder.join("complete"), folder.display().to_string());
    if !mark.exists() {
        let make = ["-m", "venv", "--clear", &*root];
        run("python3", &make).await?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", REQUIREMENT];
        run(&folder.join("bin/python").display().to_string(), &install).await?;
        std::fs::write(&mark, "").map_err(|error| format!("{}: {error}", mark.display()))?;
    }
    Ok(folder)
}

/// Runs a program that prepares the server.
///
/// # Errors
/// Why it failed: the last line that it wrote.
async fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let running = Command::new(program).args(arguments).kill_on_drop(true).output();
    let ended = tokio::time::timeout(INSTALL_LIMIT, running).await;
    let ended = ended.map_err(|_| format!("{program} has not ended after {INSTALL_LIMIT:?}"))?;
    let output = ended.map_err(|error| format!("{program} cannot be started: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    if output.status.success() { Ok(()) } else { Err(format!("{program} {}: {last}", arguments.join(" "))) }
}
