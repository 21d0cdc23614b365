//! The commands of README and `deploy/README.md`, in order, as a user who is not root, on a real API
//! server. A command that the table lacks is a failure, so that no command is added untested.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use e2e::kubernetes::control_plane::ControlPlane;
use e2e::kubernetes::suite::{ScenarioResult, Skip, TestBed};
use e2e::{Program, RunningProcess, TempDir};

const TIMEOUT: Duration = Duration::from_secs(120);
/// The user of the commands when the test runs as root: `nobody`.
const USER: [&str; 4] = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];

enum How {
    /// Until it ends with this status.
    Ends(i32),
    /// Until its log has these words; it runs until the next server is started, or to the end.
    Runs(&'static [&'static str]),
    Short(&'static str),
    /// Not here, but by this test or tool.
    Elsewhere,
}

/// The first entry whose words a command begins with.
const COMMANDS: [(&str, How); 36] = [
    // tests/tests/ec2/demo.rs.
    ("cargo demo-ec2", How::Elsewhere),
    // Both are run on a bare machine; CI runs the second.
    ("cargo demo", How::Elsewhere),
    ("cargo test", How::Elsewhere),
    // tests/tests/it: attack.rs, crashes.rs, holds.rs, load.rs.
    ("cargo run --release -p e2e --bin attack", How::Elsewhere),
    ("fleetwright-sim simulate crashes", How::Elsewhere),
    ("fleetwright-sim simulate holds", How::Elsewhere),
    ("fleetwright-sim simulate interruptions", How::Elsewhere),
    ("fleetwright-sim simulate load", How::Elsewhere),
    ("fleetwright-sim simulate faults", How::Short("fleetwright-sim simulate faults --seeds 1..20")),
    ("fleetwright-sim simulate disruption", How::Short("fleetwright-sim simulate disruption --load drift --hours 48")),
    // One pod of the example has no place.
    ("fleetwright plan --region", How::Ends(1)),
    ("fleetwright plan -f deploy/examples/ --compare karpenter", How::Ends(0)),
    ("fleetwright plan -f deploy/examples/ --max-usd 10 -o markdown", How::Ends(0)),
    ("fleetwright plan -f deploy/examples/ -o svg", How::Ends(0)),
    // Both need Nodes of machines with a price: tests/tests/it/repack.rs.
    ("fleetwright plan --disrupt -f tests/fixtures/disruption/cluster.yaml", How::Elsewhere),
    ("fleetwright capture | fleetwright plan --disrupt -f -", How::Elsewhere),
    ("fleetwright plan --repack -f tests/fixtures/repack/cluster.yaml", How::Elsewhere),
    ("fleetwright capture | fleetwright plan --repack -f -", How::Elsewhere),
    ("fleetwright capture | fleetwright plan -f -", How::Ends(0)),
    // Both need an AWS account; tests/tests/ec2 and `simulate crashes --cloud ec2` have simulated ones.
    ("fleetwright serve --cloud-region", How::Elsewhere),
    ("fleetwright serve --cloud-accounts-file", How::Elsewhere),
    ("fleetwright accounts check deploy/accounts.toml", How::Ends(0)),
    ("fleetwright serve --print-config", How::Ends(0)),
    ("fleetwright serve --config deploy/fleetwright.toml --print-config", How::Ends(0)),
    ("fleetwright serve", How::Runs(&["serving"])),
    ("fleetwright-sim serve", How::Runs(&["serving"])),
    ("fleetwright-agent --config deploy/agent.toml --print-config", How::Ends(0)),
    ("fleetwright-agent --config deploy/agent.toml", How::Runs(&["connected to the server"])),
    // Needs an AWS account; server/clouds/cloud-ec2/tests/it/interruption.rs has a simulated one.
    ("fleetwright ec2 setup --region", How::Elsewhere),
    // Needs the database of the example; tests/tests/it/deploy.rs starts a server with the settings.
    ("DATABASE_URL='postgres://fleetwright@db.internal", How::Elsewhere),
    ("fleetwright freezes --server https://127.0.0.1:7450 --ca-file ca.crt", How::Ends(0)),
    ("openssl ", How::Ends(0)),
    ("printf ", How::Ends(0)),
    ("kubectl ", How::Ends(0)),
    ("$EDITOR ", How::Ends(0)),
    ("fleetwright crds", How::Ends(0)),
];

/// A user's machine: programs on the PATH, a home, the folder `deploy`, and a kubeconfig.
struct Machine {
    folder: TempDir,
    is_root: bool,
    server: Option<RunningProcess>,
    agent: Option<RunningProcess>,
}

/// Every command of the documents works.
pub(super) async fn work(test_bed: Arc<TestBed>) -> ScenarioResult {
    tokio::task::spawn_blocking(move || run_documents(&test_bed)).await?
}

fn run_documents(test_bed: &TestBed) -> ScenarioResult {
    for (program, argument) in [("kubectl", "version"), ("openssl", "version"), ("setpriv", "--version")] {
        if Command::new(program).arg(argument).output().is_err() {
            return Err(Skip(format!("no {program} is installed")).into());
        }
    }
    let control_plane = ControlPlane::find_or_start()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the tests are a folder of the project")?;
    let mut machine = Machine::prepare(test_bed, control_plane.kubeconfig(), root)?;
    let (mut ran, mut elsewhere) = (0, 0);
    for document in ["README.md", "deploy/README.md"] {
        let text = fs::read_to_string(root.join(document)).with_context(|| format!("no {document}"))?;
        for command in commands(&text) {
            let found = COMMANDS.iter().find(|(words, _)| command.starts_with(words));
            let Some((_, how)) = found else { bail!("{document} has a command that no test knows: {command}") };
            let done = machine.run(&command, how).with_context(|| format!("{document}: {command}"))?;
            *(if done { &mut ran } else { &mut elsewhere }) += 1;
        }
    }
    Ok(format!("{ran} commands of README and deploy/README.md, {elsewhere} more by other tests"))
}

/// The commands in the blocks of a document that are shell; a block with a document in it is one.
fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for block in text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        if block.contains("<<'END'") {
            commands.push(block.to_owned());
            continue;
        }
        let joined = block.replace("\\\n", " ");
        commands.extend(joined.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()));
    }
    commands
}

impl Machine {
    fn prepare(test_bed: &TestBed, kubeconfig: &Path, root: &Path) -> anyhow::Result<Self> {
        let folder = TempDir::new();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("bin"))?;
        fs::create_dir(at("home"))?;
        // Copies, because the build folder may be one of root's.
        fs::copy(&test_bed.programs.server, at("bin/fleetwright"))?;
        fs::copy(&test_bed.programs.simulator, at("bin/fleetwright-sim"))?;
        fs::copy(&test_bed.programs.agent, at("bin/fleetwright-agent"))?;
        fs::copy(kubeconfig, at("kubeconfig"))?;
        let copied = Command::new("cp").args(["-r"]).arg(root.join("deploy")).arg(at("deploy")).status()?;
        ensure!(copied.success(), "cannot copy deploy/");
        fs::copy(root.join("deploy/auth.toml"), at("auth.toml"))?;
        for open in [folder.path().to_owned(), at("home"), at("kubeconfig")] {
            fs::set_permissions(open, Permissions::from_mode(0o777))?;
        }
        let id = Command::new("id").arg("-u").output()?.stdout;
        Ok(Self { folder, is_root: id.starts_with(b"0\n"), server: None, agent: None })
    }

    /// Runs a command; false when another test does.
    fn run(&mut self, command: &str, how: &How) -> anyhow::Result<bool> {
        match how {
            How::Elsewhere => return Ok(false),
            How::Ends(status) => self.run_to_end(command, *status)?,
            How::Short(short) => self.run_to_end(short, 0)?,
            How::Runs(words) => {
                let is_server = !command.starts_with("fleetwright-agent");
                // The next server has the same ports.
                *(if is_server { &mut self.server } else { &mut self.agent }) = None;
                let process = self.program(&format!("exec {command}")).start();
                let _line = process.wait_for_line(words, TIMEOUT);
                *(if is_server { &mut self.server } else { &mut self.agent }) = Some(process);
            }
        }
        Ok(true)
    }

    fn run_to_end(&self, command: &str, status: i32) -> anyhow::Result<()> {
        let ended = self.program(command).run(TIMEOUT);
        ensure!(ended.status == status, "status {}: {}{}", ended.status, ended.stderr, ended.stdout);
        Ok(())
    }

    fn program(&self, command: &str) -> Program {
        let at = |name: &str| -> PathBuf { self.folder.path().join(name) };
        let script = format!("cd '{}' && {command}", self.folder.path().display());
        let shell = ["/bin/sh", "-c", &script];
        let program = if self.is_root {
            Program::new("setpriv", &[&USER[..], &shell].concat())
        } else {
            Program::new(shell[0], &shell[1..])
        };
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", at("bin").display());
        let program = program.env("PATH", &path).env("HOME", &at("home").display().to_string());
        let program = program.env("KUBECONFIG", &at("kubeconfig").display().to_string()).env("EDITOR", "true");
        program.env("FLEETWRIGHT_STORE_MEMORY", "false")
    }
}
