//! The servers, cloud and database of a load run: external, or own processes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use fleetwright_proto::simulation::v1;

use super::balancer::Balancer;
use super::metrics::{Database, Metrics, POLL_INTERVAL};
use super::plan::Plan;
use crate::ledgers;
use crate::processes::{CloudProcess, NO_POSTGRES, ServerProcess};
use crate::simulated_cloud::remote::{self, Client};
use store_postgres::postgres_local::{self, LocalPostgres};

/// Limit until a started server answers.
const STARTED: Duration = Duration::from_secs(60);

/// Everything except the clusters.
pub(super) struct TestBed {
    source: ServerSource,
    /// The cloud of an external server.
    external_cloud: Option<Client>,
    pub(super) database: Option<Database>,
    /// Dropped last: the others may still write to it.
    postgres: Option<Postgres>,
}

enum ServerSource {
    External(ExternalServer),
    Own(Box<OwnProcesses>),
}

struct ExternalServer {
    target: String,
    /// HTTP addresses of the metrics of its replicas.
    pages: Vec<SocketAddr>,
    /// Process ids of its replicas that run on this machine.
    pids: Vec<u32>,
}

struct OwnProcesses {
    url: String,
    cloud: CloudProcess,
    client: Client,
    servers: Vec<ServerProcess>,
    balancer: Balancer,
}

/// A durable PostgreSQL, as in production, in a temporary folder.
struct Postgres {
    server: Option<LocalPostgres>,
    folder: PathBuf,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.server.take());
        let _gone_already = std::fs::remove_dir_all(&self.folder);
    }
}

impl Postgres {
    fn start() -> anyhow::Result<Self> {
        let binaries = postgres_local::find().ok_or_else(|| anyhow!(NO_POSTGRES))?;
        let server = LocalPostgres::durable_temporary(&binaries);
        let server = server.context("cannot start PostgreSQL; pass a running one with --database-url")?;
        let folder = server.folder().to_owned();
        Ok(Self { server: Some(server), folder })
    }
}

impl TestBed {
    /// Starts everything that is not external, and checks the database connection.
    pub(super) async fn prepare(plan: &Plan) -> anyhow::Result<Self> {
        let postgres = match (&plan.target, &plan.database_url) {
            (None, None) => Some(Postgres::start()?),
            _ => None,
        };
        let own = postgres.as_ref().and_then(|postgres| postgres.server.as_ref());
        let url = plan.database_url.clone().or_else(|| own.map(LocalPostgres::url));
        let source = match &plan.target {
            Some(target) => ServerSource::External(ExternalServer {
                target: target.clone(),
                pages: plan.page.clone(),
                pids: plan.server_pid.clone(),
            }),
            None => ServerSource::Own(Box::new(OwnProcesses::start(plan, url.clone().unwrap_or_default()).await?)),
        };
        let database = match url {
            Some(url) => Some(Database::connect(&url, own.and_then(LocalPostgres::pid)).await?),
            None => None,
        };
        let external_cloud = plan.cloud_address.as_deref().map(remote::client).transpose()?;
        Ok(Self { source, external_cloud, database, postgres })
    }

    pub(super) fn target(&self) -> String {
        match &self.source {
            ServerSource::External(server) => server.target.clone(),
            ServerSource::Own(own) => format!("http://{}", own.balancer.address),
        }
    }

    pub(super) fn pages(&self) -> Vec<SocketAddr> {
        match &self.source {
            ServerSource::External(server) => server.pages.clone(),
            ServerSource::Own(own) => own.servers.iter().map(|server| server.http).collect(),
        }
    }

    /// Whether the servers are own processes and thus share this machine's clock.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.source, ServerSource::Own(_))
    }

    /// Waits until every server answers: earlier agents would all connect to the ready ones.
    pub(super) async fn ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + STARTED;
        for page in self.pages() {
            while let Err(error) = Metrics::read(page).await {
                if Instant::now() > deadline {
                    return Err(error.context(format!("a server does not answer after {} s", STARTED.as_secs())));
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    pub(super) fn servers(&self) -> Vec<u32> {
        match &self.source {
            ServerSource::External(server) => server.pids.clone(),
            ServerSource::Own(own) => own.servers.iter().filter_map(ServerProcess::pid).collect(),
        }
    }

    /// Process id of the simulated cloud.
    pub(super) fn cloud(&self) -> Option<u32> {
        match &self.source {
            ServerSource::External(_) => None,
            ServerSource::Own(own) => own.cloud.pid(),
        }
    }

    /// Bytes of whole inputs in the log.
    pub(super) async fn whole_inputs(&self) -> anyhow::Result<Option<i64>> {
        match &self.database {
            Some(database) => Ok(Some(database.whole_inputs().await?)),
            None => Ok(None),
        }
    }

    pub(super) async fn kill(&mut self, number: usize) -> anyhow::Result<()> {
        self.server(number)?.kill().await
    }

    /// Shuts a server down, so that it hands its clusters over.
    pub(super) async fn leave(&mut self, number: usize) -> anyhow::Result<()> {
        self.server(number)?.terminate().await
    }

    /// Restarts a server that has exited.
    pub(super) fn restart(&mut self, number: usize) -> anyhow::Result<()> {
        self.server(number)?.restart()
    }

    pub(super) fn join(&mut self, plan: &Plan) -> anyhow::Result<()> {
        match &mut self.source {
            ServerSource::Own(own) => own.join(plan),
            ServerSource::External(_) => {
                Err(anyhow!("the server of --target is external: it cannot be killed, restarted or joined"))
            }
        }
    }

    /// Cuts every connection, so that agents are spread over all replicas.
    pub(super) fn rebalance(&self) {
        if let ServerSource::Own(own) = &self.source {
            own.balancer.cut();
        }
    }

    /// Adds the instances of nodes to the cloud, if it is known.
    pub(super) async fn add_instances(&mut self, instances: Vec<v1::Instance>) -> anyhow::Result<()> {
        let client = match &mut self.source {
            ServerSource::Own(own) => Some(&mut own.client),
            ServerSource::External(_) => self.external_cloud.as_mut(),
        };
        let Some(client) = client else { return Ok(()) };
        let added = client.add_instances(v1::AddInstancesRequest { instances }).await;
        added.map(drop).context("cannot add the instances of the full nodes to the simulated cloud")
    }

    /// NodeClaims with more than one launched instance, from the cloud's ledger.
    pub(super) async fn launched_twice(&mut self) -> anyhow::Result<Option<Vec<String>>> {
        let ServerSource::Own(own) = &mut self.source else { return Ok(None) };
        let ledger = own
            .client
            .read_ledger(v1::ReadLedgerRequest {})
            .await
            .context("cannot read the simulated cloud's ledger")?
            .into_inner();
        Ok(Some(ledgers::launched_twice(&ledger)))
    }

    pub(super) async fn stop(self) {
        if let ServerSource::Own(own) = self.source {
            for server in own.servers {
                server.stop().await;
            }
        }
        drop((self.database, self.postgres));
    }

    fn server(&mut self, number: usize) -> anyhow::Result<&mut ServerProcess> {
        match &mut self.source {
            ServerSource::Own(own) => own.servers.get_mut(number).ok_or_else(|| anyhow!("there is no server {number}")),
            ServerSource::External(_) => {
                Err(anyhow!("the server of --target is external: it cannot be killed, restarted or joined"))
            }
        }
    }
}

impl OwnProcesses {
    async fn start(plan: &Plan, url: String) -> anyhow::Result<Self> {
        let flags = ["--boot", "1s", "--seed", &plan.seed.to_string()].map(str::to_owned);
        let cloud = CloudProcess::start(&flags).await?;
        let (client, balancer) = (remote::client(&cloud.address)?, Balancer::start().await?);
        let mut own = Self { url, cloud, client, servers: Vec::new(), balancer };
        own.join(plan)?;
        Ok(own)
    }

    fn join(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let owner = format!("load-{}", self.servers.len());
        let flags = [["--cloud-address", &self.cloud.address], ["--lease-owner", &owner]];
        let server = ServerProcess::start(&self.url, &plan.log, &flags)?;
        self.balancer.add(server.grpc);
        self.servers.push(server);
        Ok(())
    }
}
