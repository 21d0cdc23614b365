//! Two real clusters on one server, each trusted by the tokens of its own API server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::Program;
use e2e::kubernetes::cluster::Cluster;
use e2e::kubernetes::control_plane::ControlPlane;
use e2e::kubernetes::deploy;
use e2e::kubernetes::process::Process;
use e2e::kubernetes::suite::{self, Stage, Told};
use e2e::kubernetes::tokens::{Signer, granted};
use e2e::kubernetes::world::{AGENT, CLUSTER, Options, World, agent};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Files, LET_IN, PATIENCE, REFUSED, clear, now_s, one_kind, secured, until_said, until_served};

/// The other cluster's name in the fleet.
const OTHER: &str = "other";
/// What tokens are good for (deploy/agent/run/deployment.yaml).
const AUDIENCE: &str = "fleetwright";
/// Seconds that the kubelet asks for (deploy/agent/run/deployment.yaml).
const SECONDS: i64 = 3600;
/// A server forgives a clock that is so many seconds late (`trust::token::LEEWAY_S`).
const LEEWAY_S: i64 = 30;

/// A cluster as an issuer of tokens.
struct Issuer {
    client: Client,
    signer: Signer,
    /// Who vouches for its address.
    ca_file: String,
}

impl Issuer {
    async fn of(plane: &ControlPlane, client: &Client) -> anyhow::Result<Self> {
        let sample = granted(client, AGENT, &[AUDIENCE], SECONDS).await?;
        let signer = Signer::new(&sample, &plane.secret("service-accounts.key")?)?;
        Ok(Self { client: client.clone(), signer, ca_file: plane.secret("ca.crt")?.display().to_string() })
    }

    /// A token of the agent's account, as a kubelet gets it.
    async fn token(&self) -> anyhow::Result<String> {
        granted(&self.client, AGENT, &[AUDIENCE], SECONDS).await
    }

    /// An entry of the trust file: `cluster` is whoever has a token of the agent's account here.
    fn trusted_as(&self, cluster: &str, keys: &str) -> String {
        let (issuer, subject) = (self.signer.issuer(), self.signer.subject());
        format!(
            "[[agents]]\ncluster = '{cluster}'\n\
             token = {{ issuer = '{issuer}', subject = '{subject}', {keys} }}\n"
        )
    }

    /// By keys that the server asks the API server for.
    fn discovered_as(&self, cluster: &str) -> String {
        self.trusted_as(cluster, &format!("ca-file = '{}'", self.ca_file))
    }
}

/// One server, two clusters, and whoever pretends to be one.
struct Play {
    stage: Arc<Stage>,
    world: World,
    files: Files,
    ours: Issuer,
    /// A control plane of its own; it ends with this.
    other_plane: ControlPlane,
    other: Issuer,
}

/// An agent that shows its account's token, with keys given and with keys discovered; the token is replaced and ends; nobody
/// else speaks for the cluster; and a cluster that is trusted cannot touch the machines of another.
pub(in super::super) async fn speak_for_one_cluster(stage: Arc<Stage>) -> Told {
    let ours = Issuer::of(&*stage.plane.lock().await, &stage.client).await?;
    let other_plane = tokio::task::spawn_blocking(ControlPlane::find_or_start).await??;
    let other = Issuer::of(&other_plane, &suite::furnish(&other_plane).await?).await?;
    ensure!(ours.signer.issuer() != other.signer.issuer(), "two clusters with one issuer");
    // kubectl get --raw /openid/v1/jwks
    let keys = ours.client.request_text(http::Request::get("/openid/v1/jwks").body(Vec::new())?).await?;
    let files = Files::new(&(ours.trusted_as(CLUSTER, "jwks-file = 'keys.json'") + &other.discovered_as(OTHER)))?;
    files.write("keys.json", &keys)?;
    let options = Options { secured: secured(files.of_server(), files.with_token("token")), ..Options::default() };
    let world = World::prepare(&stage, "tokens", options).await?;
    let mut play = Play { stage, world, files, ours, other_plane, other };
    play.all().await.with_context(|| play.world.last_words())
}

impl Play {
    async fn all(&mut self) -> Told {
        let ends_s = now_s() + 5;
        self.files.write("token", &self.ours.signer.until(ends_s)?)?;
        self.world.begin().await?;
        until_said(&self.world, &[LET_IN, CLUSTER], 1).await?;
        // The kubelet replaces a token before it ends; the agent reads it when it connects again.
        let second = self.ours.token().await?;
        self.files.write("token", &second)?;
        one_kind(&self.world).await?;
        until_served(&self.world, 1).await?;
        let refused = self.refuse_impostors().await?;
        let reconnected = self.outlive_the_first_token(ends_s).await?;
        until_served(&self.world, 2).await?;
        self.discover().await?;
        until_served(&self.world, 3).await?;
        let untouched = self.keep_machines_from_the_other_cluster().await?;
        self.refuse_as_client(&second).await?;
        ensure!(self.world.server.times_said(&[&second[..40]]) == 0, "the log repeats a token");
        clear(&self.world).await?;
        Ok(format!(
            "the first token ended, and the agent was back with the second {reconnected:.1?} later; keys given, then \
             discovered; refused: {refused}; {untouched}"
        ))
    }

    /// Agents of the other cluster that say they are ours, each with another token.
    async fn refuse_impostors(&self) -> Told {
        let default = ("default", "default");
        let tokens = [
            ("forged", self.ours.signer.forged()?, "signature does not hold"),
            ("expired", self.ours.signer.until(now_s() - LEEWAY_S)?, "has expired"),
            ("audience", granted(&self.ours.client, AGENT, &["sts.amazonaws.com"], SECONDS).await?, "audience"),
            ("account", granted(&self.ours.client, default, &[AUDIENCE], SECONDS).await?, "default:default"),
            ("stranger", self.other.token().await?, "no key of its issuer"),
            ("empty-handed", "none".to_owned(), "cannot be read"),
        ];
        let mut impostors = Vec::new();
        for (name, token, said) in &tokens {
            self.files.write(name, token)?;
            let shown = self.files.with_token(name);
            let at = (&self.world, self.other_plane.kubeconfig());
            impostors.push((self.files.impostor(&self.stage, (name, CLUSTER), at, shown)?, said));
        }
        for (impostor, said) in &mut impostors {
            let told = impostor.line_with(&["not trusted to speak for cluster"], PATIENCE).await?;
            ensure!(!told.contains("connected"), "{told}");
            until_said(&self.world, &[REFUSED, said], 1).await?;
        }
        ensure!(self.world.server.times_said(&[LET_IN, CLUSTER]) == 1, "somebody else was let in");
        Ok(tokens.map(|(name, _, _)| name).join(", "))
    }

    /// The stream ends with the token that opened it, and the next one has the token that is there then.
    async fn outlive_the_first_token(&mut self, ends_s: i64) -> anyhow::Result<Duration> {
        self.world.agent.line_with(&["does not prove the cluster any more"], PATIENCE).await?;
        let (ended, start) = (now_s(), Instant::now());
        ensure!(ended >= ends_s + LEEWAY_S, "a stream ended {} s before its token", ends_s + LEEWAY_S - ended);
        until_said(&self.world, &[LET_IN, CLUSTER], 2).await?;
        Ok(start.elapsed())
    }

    /// The keys are no longer given but asked for; the server reads that by itself. What it has kept for the file's keys
    /// lets nobody in.
    async fn discover(&mut self) -> anyhow::Result<()> {
        let trust = self.ours.discovered_as(CLUSTER) + &self.other.discovered_as(OTHER);
        self.files.write("trust.toml", &trust)?;
        self.files.write("keys.json", "{\"keys\": []}")?;
        self.world.agent.kill()?;
        self.world.agent.start()?;
        until_said(&self.world, &[LET_IN, CLUSTER], 3).await?;
        let changed = self.world.server.times_said(&["the trust file has changed and is in force"]);
        ensure!(changed == 1, "the server read its trust file {changed} times");
        Ok(())
    }

    /// Whoever rules the other cluster writes a NodeClaim there that names a machine of ours, and deletes it.
    async fn keep_machines_from_the_other_cluster(&self) -> Told {
        let cluster = Cluster::with_namespace(&self.other.client, "tokens").await?;
        let mut other = self.agent_of_other(&cluster).await?;
        until_said(&self.world, &[LET_IN, OTHER], 1).await?;
        let book = self.world.book.read().await?;
        let ours = book.paid().filter_map(|sale| sale.instance.as_ref()).next().context("nothing was bought")?;
        cluster.apply(stolen()).await?;
        let status = json!({ "status": { "providerID": ours.provider_id } });
        let claims = cluster.objects("karpenter.sh/v1", "NodeClaim");
        claims.patch_status("stolen", &PatchParams::default(), &Patch::Merge(status)).await?;
        cluster.delete("karpenter.sh/v1", "NodeClaim", "stolen").await?;
        until_said(&self.world, &["a NodeClaim names a machine of somebody else", OTHER, &ours.id], 1).await?;
        // Its machine is not that cluster's to give back: the NodeClaim waits for a person.
        ensure!(claims.get_opt("stolen").await?.is_some(), "a NodeClaim whose machine is refused was removed");
        let after = self.world.book.read().await?;
        ensure!(after.paid_ids() == book.paid_ids(), "{:?} became {:?}", book.paid_ids(), after.paid_ids());
        let claims = self.world.cluster.objects("karpenter.sh/v1", "NodeClaim").list(&Default::default()).await?;
        let leaving = claims.items.iter().filter(|claim| claim.metadata.deletion_timestamp.is_some()).count();
        ensure!((claims.items.len(), leaving) == (3, 0), "{} NodeClaims of ours, {leaving} leave", claims.items.len());
        // The same agent, trusted for its own cluster, speaks for ours in vain.
        other.kill()?;
        let shown = self.files.with_token("other-token");
        let at = (&self.world, self.other_plane.kubeconfig());
        let mut turncoat = self.files.impostor(&self.stage, ("turncoat", CLUSTER), at, shown)?;
        turncoat.line_with(&["not trusted to speak for cluster"], PATIENCE).await?;
        Ok(format!("{} of ours was not given back for a NodeClaim of another cluster", ours.id))
    }

    async fn agent_of_other(&self, cluster: &Cluster) -> anyhow::Result<Process> {
        self.files.write("other-token", &self.other.token().await?)?;
        let kubeconfig = self.files.path("other.kubeconfig");
        deploy::kubeconfig_of(cluster, self.other_plane.kubeconfig(), AGENT, &kubeconfig).await?;
        let (program, server) = (&self.stage.programs.agent, format!("https://{}", self.world.grpc));
        let agent = agent(program, OTHER, &server, &kubeconfig, self.files.path("other.log"));
        let mut agent = agent.envs(self.files.with_token("other-token"));
        agent.start()?;
        Ok(agent)
    }

    /// An agent is no client: its token opens neither the view of the fleet nor a freeze.
    async fn refuse_as_client(&self, token: &str) -> anyhow::Result<()> {
        self.files.write("agents-token", token)?;
        let (program, server) =
            (self.stage.programs.server.display().to_string(), format!("https://{}", self.world.grpc));
        let files = [self.files.path("ca.crt"), self.files.path("agents-token")];
        let ended = tokio::task::spawn_blocking(move || {
            let [ca_file, token] = files.map(|path| path.display().to_string());
            let as_agent = ["--server", &server, "--ca-file", &ca_file, "--token-file", &token];
            [&["freezes"][..], &["freeze", "--reason", "mischief"], &["audit"]].map(|command| {
                let arguments = [command, &as_agent[..]].concat();
                Program::new(&program, &arguments).run(PATIENCE)
            })
        });
        for ended in ended.await? {
            ensure!(ended.status == 2, "{}{}", ended.stdout, ended.stderr);
            ensure!(ended.stderr.contains("names no client with this token"), "{}", ended.stderr);
        }
        Ok(())
    }
}

/// A NodeClaim that says that it is this product's.
fn stolen() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": "stolen",
            "annotations": { "fleetwright.dev/managed": "true" },
            "labels": { "karpenter.sh/nodepool": "default" },
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }],
        },
    })
}
