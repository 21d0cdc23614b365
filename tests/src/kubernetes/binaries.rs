//! A control plane of the published binaries: etcd, kube-apiserver, and optionally its clients. It
//! uses the same folder layout as the Go program: keys in `pki`, `admin.kubeconfig`, data.

mod keys;

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::config::Kubeconfig;
use kube::{Api, Client, Config};

/// Variable that names a folder with `etcd` and `kube-apiserver`, and optionally `kube-scheduler`
/// and `kube-controller-manager`.
pub const ASSETS: &str = "KUBEBUILDER_ASSETS";
/// From start to ready: some seconds on a quiet machine.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which readiness is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Runs a program that ends when standard input closes, however this process ends; its ports are
/// free when the guard process has ended.
const CLEANUP_GUARD: &str = "\"$@\" </dev/null & child=$!; cat >/dev/null; kill -9 $child; wait $child";
/// Audits metadata of all requests of service accounts outside kube-system.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
    {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
    {"level": "None"}]}"#;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binaries {
    folder: PathBuf,
    clients: Vec<&'static str>,
}

/// The API server's clients that schedule pods and create them for Deployments.
const CLIENT_PROGRAMS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

impl Binaries {
    /// The binaries in `folder`.
    ///
    /// # Errors
    /// When `etcd` or `kube-apiserver` is missing.
    pub(super) fn in_folder(folder: &Path) -> anyhow::Result<Self> {
        let has = |program: &&str| folder.join(program).is_file();
        for program in ["etcd", "kube-apiserver"] {
            ensure!(has(&program), "{ASSETS} names {}, which has no {program}", folder.display());
        }
        Ok(Self { folder: folder.to_owned(), clients: CLIENT_PROGRAMS.into_iter().filter(has).collect() })
    }

    /// The same without kube-scheduler and kube-controller-manager.
    pub(super) fn without_clients(self) -> Self {
        Self { clients: Vec::new(), ..self }
    }

    /// Whether kube-scheduler and kube-controller-manager are present.
    pub(super) fn has_scheduler(&self) -> bool {
        self.clients.len() == CLIENT_PROGRAMS.len()
    }

    /// Starts the binaries on the data in `home`, and waits until clients can connect; returns the
    /// processes.
    ///
    /// # Errors
    /// When the API server is not ready in time.
    pub(super) fn start(
        &self,
        home: &Path,
        log: &Path,
        audit_log: &Path,
        node_grace: &str,
    ) -> anyhow::Result<Vec<Child>> {
        let port = port(home)?;
        keys::make(home, port)?;
        let store = format!("http://{}", free_address()?);
        let mut running = vec![self.run("etcd", etcd_flags(home, &store)?, log)?];
        let flags = api_server_flags(home, port, &store, audit_log)?;
        running.push(self.run("kube-apiserver", flags, log)?);
        wait_until_api_ready(home, false)?;
        for client_name in &self.clients {
            running.push(self.run(client_name, client_flags(home, client_name, node_grace), log)?);
        }
        if self.clients.contains(&CLIENT_PROGRAMS[0]) {
            wait_until_api_ready(home, true)?;
        }
        Ok(running)
    }

    fn run(&self, program: &str, flags: Vec<String>, log: &Path) -> anyhow::Result<Child> {
        let log = File::options().create(true).append(true).open(log).context("cannot write the log")?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", CLEANUP_GUARD, "guard"]).arg(self.folder.join(program)).args(flags);
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("cannot start {program}"))
    }
}

fn free_address() -> anyhow::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0").context("no free port")?.local_addr()?.to_string())
}

/// The API server's port: the previous one of this folder, else a free one.
fn port(home: &Path) -> anyhow::Result<u16> {
    let kept = home.join("port");
    if let Ok(port) = fs::read_to_string(&kept) {
        return port.trim().parse().with_context(|| format!("{} holds no port", kept.display()));
    }
    let port = TcpListener::bind("127.0.0.1:0").context("no free port")?.local_addr()?.port();
    fs::create_dir_all(home).with_context(|| format!("cannot make {}", home.display()))?;
    fs::write(&kept, port.to_string()).with_context(|| format!("cannot write {}", kept.display()))?;
    Ok(port)
}

fn etcd_flags(home: &Path, store: &str) -> anyhow::Result<Vec<String>> {
    let peers = format!("http://{}", free_address()?);
    Ok(vec![
        format!("--data-dir={}", home.join("etcd").display()),
        format!("--listen-client-urls={store}"),
        format!("--advertise-client-urls={store}"),
        format!("--listen-peer-urls={peers}"),
        // The data of a test need not survive a crash of the machine.
        "--unsafe-no-fsync=true".to_owned(),
        "--log-level=error".to_owned(),
    ])
}

fn api_server_flags(home: &Path, port: u16, store: &str, audit_log: &Path) -> anyhow::Result<Vec<String>> {
    let policy = home.join("audit-policy.json");
    fs::write(&policy, AUDIT_POLICY).with_context(|| format!("cannot write {}", policy.display()))?;
    let pki = |name: &str| home.join("pki").join(name).display().to_string();
    let url = keys::url(port);
    let flags = [
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        // A loopback address is no valid endpoint of the Service `kubernetes`.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--etcd-servers={store}"),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--tls-cert-file={}", pki("apiserver.crt")),
        format!("--tls-private-key-file={}", pki("apiserver.key")),
        // The issuer is a reachable address, so that other programs can discover its keys and
        // verify tokens.
        format!("--service-account-issuer={url}"),
        format!("--service-account-jwks-uri={url}/openid/v1/jwks"),
        format!("--service-account-key-file={}", pki("service-accounts.pub")),
        format!("--service-account-signing-key-file={}", pki("service-accounts.key")),
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", audit_log.display()),
        "--audit-log-mode=blocking".to_owned(),
        "--profiling=false".to_owned(),
    ];
    Ok(flags.into())
}

fn client_flags(home: &Path, client_name: &str, node_grace: &str) -> Vec<String> {
    let pki = |name: &str| home.join("pki").join(name).display().to_string();
    // Port 0 disables the listener: nothing reads their health or metrics.
    let mut flags = vec![
        "--secure-port=0".to_owned(),
        "--leader-elect=false".to_owned(),
        format!("--kubeconfig={}", home.join(format!("{client_name}.kubeconfig")).display()),
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ];
    if client_name == CLIENT_PROGRAMS[0] {
        flags.extend([
            "--use-service-account-credentials=true".to_owned(),
            format!("--service-account-private-key-file={}", pki("service-accounts.key")),
            format!("--root-ca-file={}", pki("ca.crt")),
            "--node-monitor-period=1s".to_owned(),
            format!("--node-monitor-grace-period={node_grace}"),
        ]);
    }
    flags
}

/// Waits until the API server is ready; with a controller-manager, until pods can be created too.
/// Runs in its own thread and runtime, because the caller may be inside one.
fn wait_until_api_ready(home: &Path, pods: bool) -> anyhow::Result<()> {
    let kubeconfig = home.join("admin.kubeconfig");
    let wait = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let config =
                Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &Default::default()).await?;
            wait_until_ready(&Client::try_from(config)?, pods).await
        })
    });
    wait.join().unwrap_or_else(|_| bail!("the thread that waited for the API server panicked"))
}

async fn wait_until_ready(client: &Client, pods: bool) -> anyhow::Result<()> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let answer = match pods {
            false => client.request_text(http::Request::get("/readyz").body(Vec::new())?).await.map(drop),
            // The API server rejects pods before this account exists.
            true => Api::<ServiceAccount>::namespaced(client.clone(), "default").get("default").await.map(drop),
        };
        match answer {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > end => bail!("the API server is not ready after {TIMEOUT:?}: {error}"),
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}
