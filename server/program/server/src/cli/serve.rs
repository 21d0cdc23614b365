//! `fleetwright serve`: runs the server with configuration from file, environment and flags.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};

use crate::serve::Server;
use crate::{clouds, serve};
use command::exit::{Failure, Status};
use command::output;
use server_settings::{Config, FILE_VARIABLE, KEYS, Layers, Provider};
use settings::suggest;

/// Flags of `serve`: one per configuration key, and `--config` and `--print-config`.
#[derive(Debug)]
pub struct ServeFlags {
    file: Option<PathBuf>,
    print: bool,
    trial: bool,
    values: Vec<(&'static settings::Key, String)>,
}

impl Args for ServeFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        let file =
            Arg::new("config").long("config").value_name("FILE").env(FILE_VARIABLE).help("Configuration file (TOML)");
        let print = Arg::new("print-config").long("print-config").action(ArgAction::SetTrue);
        let flag = |key: &settings::Key| {
            Arg::new(key.path).long(key.flag).value_name(key.kind.placeholder()).help(key.flag_help())
        };
        command
            .arg(file)
            .arg(print.help("Print the effective configuration, with secrets hidden, and exit"))
            .args(KEYS.iter().map(flag))
            .after_help(
                "A flag overrides the environment variable of its setting, a variable overrides the configuration file. Values \
                 of type DURATION are whole numbers with a unit: 500ms, 10s, 2m, 1h, 1d. `fleetwright explain config.KEY` \
                 describes one setting.",
            )
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |key: &'static settings::Key| Some((key, matches.get_one::<String>(key.path)?.clone()));
        Ok(Self {
            file: matches.get_one::<String>("config").map(PathBuf::from),
            print: matches.get_flag("print-config"),
            trial: false,
            values: KEYS.iter().filter_map(given).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ServeFlags {
    /// These flags for a trial: state in memory, and listeners that only this host can reach.
    #[must_use]
    pub fn for_trial(self) -> Self {
        Self { trial: true, ..self }
    }
}

/// Flags that servers of other projects have for the addresses of their listeners.
const LISTENER_FLAGS: [&str; 7] = ["addr", "address", "bind", "bind-address", "host", "listen", "port"];

/// The flags, with their dashes, that may be meant by the unknown flag `unknown`, which is without dashes.
#[must_use]
pub fn similar_flags(unknown: &str) -> Vec<String> {
    if LISTENER_FLAGS.contains(&unknown) {
        return ["--listen-grpc", "--listen-http"].map(str::to_owned).into();
    }
    let nearest = suggest::nearest(unknown, KEYS.iter().map(|key| key.flag.to_owned()));
    nearest.into_iter().map(|flag| format!("--{flag}")).collect()
}

/// Runs a server on EC2.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: ServeFlags) -> Result<Status, Failure> {
    run_on(Provider::Ec2, flags, clouds::start)
}

/// Runs the server that `start` makes for the settings and `provider`.
///
/// # Errors
/// What failed, and its remedy.
pub fn run_on<S>(provider: Provider, flags: ServeFlags, start: impl FnOnce(Config) -> S) -> Result<Status, Failure>
where
    S: Future<Output = anyhow::Result<Server>>,
{
    let layers = layers(&flags);
    let mut config = Config::resolve(&layers)?;
    config.cloud.provider = provider;
    if flags.print {
        output::print_text(&server_settings::print(&layers))?;
        return Ok(Status::Done);
    }
    clouds::check(&config.cloud).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let collector = config.trace_collector.as_deref();
    let _traces = runtime
        .block_on(async {
            telemetry::init_logging_and_tracing(&config.log_filter, config.log_json, collector, &config.lease.owner)
        })
        .map_err(Failure::refused)?;
    let grace = config.shutdown_grace;
    let ended = runtime.block_on(serve::until_stopped(start(config), grace));
    ended.map_err(|error| Failure::internal(format!("{error:#}")))?;
    Ok(Status::Done)
}

fn layers(flags: &ServeFlags) -> Layers {
    let utf8 =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment: BTreeMap<String, String> = utf8.collect();
    let mut layers = Layers::default();
    if !is_root() {
        layers.use_state_folder_of_user(&environment);
    }
    if let Some(file) = &flags.file {
        layers.add_file(file);
    }
    layers.add_environment(environment);
    if flags.trial {
        layers.add_trial();
    }
    for (key, value) in &flags.values {
        layers.add_flag(key, value.clone());
    }
    layers
}

/// Whether this process may write everywhere.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_type_key_variable_and_default_of_every_setting() {
        let help = ServeFlags::augment_args(clap::Command::new("serve")).render_long_help().to_string();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for key in KEYS {
            assert!(words.contains(&format!("--{} <{}>", key.flag, key.kind.placeholder())), "{}", key.flag);
            let facts = format!("[key: {}] [env: {}]", key.path, key.variable());
            assert!(words.contains(&facts), "{facts}");
        }
        for flag in similar_flags("port") {
            assert!(words.contains(&format!("{flag} <ADDRESS>")), "{flag}");
        }
        for part in ["--control-batch-idle <DURATION>", "[default: 1s]", "--control-preference-policy <Respect|Ignore>"]
        {
            assert!(words.contains(part), "{part}");
        }
    }

    #[test]
    fn an_unknown_flag_is_answered_with_those_that_may_be_meant() {
        assert_eq!(similar_flags("port"), ["--listen-grpc", "--listen-http"]);
        assert_eq!(similar_flags("listen-htp"), ["--listen-http"]);
        // Most of its letters are wrong, but it is a part of one flag.
        assert_eq!(similar_flags("tls-key"), ["--listen-tls-key"]);
        assert!(similar_flags("xyzzy").is_empty());
    }
}
