//! What clusters connect to: a server that was given, or processes of our own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use fleetwright_proto::simulation::v1;

use super::balancer::Balancer;
use super::gauges::{Database, Metrics};
use super::{Given, LOOK, Plan};
use crate::clouds::remote::{self, Client};
use crate::processes::{Cloud, Server, without_bounds};
use crate::store::own::{self, OwnServer};

/// How long a server may take until it answers.
const STARTED: Duration = Duration::from_secs(60);

/// What there is beside the clusters.
pub(super) struct Ground {
    whose: Whose,
    /// The database, if it is known.
    pub(super) database: Option<Database>,
    /// Dropped last: everything else may still write.
    postgres: Option<Postgres>,
}

enum Whose {
    Given(Given),
    Ours(Box<Ours>),
}

struct Ours {
    url: String,
    cloud: Cloud,
    client: Client,
    servers: Vec<Server>,
    balancer: Balancer,
}

/// A PostgreSQL that keeps what it is given, as one of production does, in a folder that goes with it.
struct Postgres {
    server: Option<OwnServer>,
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
        const MISSING: &str = "no PostgreSQL is installed on this machine; name one with --database-url";
        let binaries = own::find().ok_or_else(|| anyhow!(MISSING))?;
        let server = OwnServer::temporary(&binaries);
        let server = server.context("no PostgreSQL could be started; name one with --database-url")?;
        let folder = server.folder().to_owned();
        Ok(Self { server: Some(server), folder })
    }
}

impl Ground {
    /// Starts what is not given, and looks whether it answers.
    pub(super) async fn prepare(plan: &Plan) -> anyhow::Result<Self> {
        let postgres = match (&plan.given, &plan.database_url) {
            (None, None) => Some(Postgres::start()?),
            _ => None,
        };
        let own = postgres.as_ref().and_then(|postgres| postgres.server.as_ref());
        let url = plan.database_url.clone().or_else(|| own.map(OwnServer::url));
        let whose = match &plan.given {
            Some(given) => Whose::Given(given.clone()),
            None => Whose::Ours(Box::new(Ours::start(plan, url.clone().unwrap_or_default()).await?)),
        };
        let database = match url {
            Some(url) => Some(Database::connect(&url, own.and_then(OwnServer::pid)).await?),
            None => None,
        };
        Ok(Self { whose, database, postgres })
    }

    /// Where agents connect.
    pub(super) fn target(&self) -> String {
        match &self.whose {
            Whose::Given(given) => given.target.clone(),
            Whose::Ours(ours) => format!("http://{}", ours.balancer.address),
        }
    }

    /// Where metrics are.
    pub(super) fn pages(&self) -> Vec<SocketAddr> {
        match &self.whose {
            Whose::Given(given) => vec![given.page],
            Whose::Ours(ours) => ours.servers.iter().map(|server| server.http).collect(),
        }
    }

    /// Whether servers run on this machine, and tell moments by its clock.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.whose, Whose::Ours(_))
    }

    /// Waits until every server answers: agents that come before would all go to those that do.
    pub(super) async fn ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + STARTED;
        for page in self.pages() {
            while let Err(error) = Metrics::read(page).await {
                if Instant::now() > deadline {
                    return Err(error.context(format!("a server is not there after {} s", STARTED.as_secs())));
                }
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// Processes of servers that run.
    pub(super) fn servers(&self) -> Vec<u32> {
        match &self.whose {
            Whose::Given(given) => given.pid.into_iter().collect(),
            Whose::Ours(ours) => ours.servers.iter().filter_map(Server::pid).collect(),
        }
    }

    /// The process of the cloud.
    pub(super) fn cloud(&self) -> Option<u32> {
        match &self.whose {
            Whose::Given(_) => None,
            Whose::Ours(ours) => ours.cloud.pid(),
        }
    }

    /// Bytes that whole inputs take in the log.
    pub(super) async fn whole_inputs(&self) -> anyhow::Result<Option<i64>> {
        match &self.database {
            Some(database) => Ok(Some(database.whole_inputs().await?)),
            None => Ok(None),
        }
    }

    /// Ends a server at once.
    pub(super) async fn kill(&mut self, number: usize) -> anyhow::Result<()> {
        self.server(number)?.kill().await
    }

    /// Has a server give its clusters away and end.
    pub(super) async fn leave(&mut self, number: usize) -> anyhow::Result<()> {
        self.server(number)?.ask_to_end().await
    }

    /// Starts a server again that has ended.
    pub(super) fn restart(&mut self, number: usize) -> anyhow::Result<()> {
        self.server(number)?.restart()
    }

    /// Starts one more replica.
    pub(super) fn join(&mut self, plan: &Plan) -> anyhow::Result<()> {
        match &mut self.whose {
            Whose::Ours(ours) => ours.join(plan),
            Whose::Given(_) => Err(anyhow!("a server that was given is left alone")),
        }
    }

    /// Cuts every connection, so that all replicas get their share of the agents.
    pub(super) fn share(&self) {
        if let Whose::Ours(ours) = &self.whose {
            ours.balancer.cut();
        }
    }

    /// NodeClaims for which more than one machine was sold, by the cloud's book.
    pub(super) async fn doubled(&mut self) -> anyhow::Result<Option<Vec<String>>> {
        let Whose::Ours(ours) = &mut self.whose else { return Ok(None) };
        let book =
            ours.client.book(v1::BookRequest {}).await.context("the simulated cloud shows no book")?.into_inner();
        let mut sold: BTreeMap<String, usize> = BTreeMap::new();
        for instance in book.sales.iter().filter_map(|sale| sale.instance.as_ref()) {
            *sold.entry(format!("{}/{}", instance.cluster, instance.claim)).or_default() += 1;
        }
        Ok(Some(sold.into_iter().filter(|(_, count)| *count > 1).map(|(claim, _)| claim).collect()))
    }

    /// Ends everything that was started.
    pub(super) async fn stop(self) {
        if let Whose::Ours(ours) = self.whose {
            for server in ours.servers {
                server.stop().await;
            }
        }
        drop((self.database, self.postgres));
    }

    fn server(&mut self, number: usize) -> anyhow::Result<&mut Server> {
        match &mut self.whose {
            Whose::Ours(ours) => ours.servers.get_mut(number).ok_or_else(|| anyhow!("there is no server {number}")),
            Whose::Given(_) => Err(anyhow!("a server that was given is left alone")),
        }
    }
}

impl Ours {
    async fn start(plan: &Plan, url: String) -> anyhow::Result<Self> {
        let flags = ["--boot", "1s", "--seed", &plan.seed.to_string()].map(str::to_owned);
        let cloud = Cloud::start(&flags).await?;
        let (client, balancer) = (remote::client(&cloud.address)?, Balancer::start().await?);
        let mut ours = Self { url, cloud, client, servers: Vec::new(), balancer };
        ours.join(plan)?;
        Ok(ours)
    }

    fn join(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let owner = format!("load-{}", self.servers.len());
        let flags = [
            ["--cloud-provider", "simulated"],
            ["--cloud-address", &self.cloud.address],
            ["--lease-owner", &owner],
            ["--log-filter", &plan.log],
        ];
        let flags = flags.into_iter().flatten().map(str::to_owned).chain(without_bounds()).collect();
        let server = Server::start(&self.url, flags)?;
        self.balancer.add(server.grpc);
        self.servers.push(server);
        Ok(())
    }
}
