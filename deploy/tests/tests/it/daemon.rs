//! The daemon of an install, configured as it would be there.

use clap::{Command, CommandFactory, FromArgMatches};
use serde_json::Value;
use tetris_deploy_tests::objects::{Objects, Pods, list, text, texts};
use tetris_node::cli::Cli;
use tetris_node::config::{Config, ConfigFlags};

/// The daemon of one install: containers of one pod.
pub struct Daemon<'a> {
    pub pods: Pods<'a>,
}

/// One container of it, called after its process.
pub struct Process<'a> {
    pub pods: Pods<'a>,
    pub container: &'a Value,
}

impl<'a> Daemon<'a> {
    pub fn of(objects: &'a Objects) -> Self {
        let mut all = objects.pods().into_iter();
        let pods = all
            .find(|pods| pods.name() == "DaemonSet tetris-node")
            .unwrap();
        assert_eq!(pods.spec["initContainers"], Value::Null);
        Self { pods }
    }

    pub fn processes(&self) -> impl Iterator<Item = Process<'a>> {
        let pods = self.pods;
        let containers = list(&pods.spec["containers"]).iter();
        containers.map(move |container| Process { pods, container })
    }

    pub fn process(&self, name: &str) -> Process<'a> {
        let mut all = self.processes();
        all.find(|process| process.name() == name)
            .unwrap_or_else(|| panic!("no container `{name}`"))
    }

    /// The memory limit that the size of the tmpfs follows from.
    pub fn memory_limit(&self) -> u64 {
        memory_limit(self.process("broker").container)
    }

    /// The configuration of the process that mounts.
    pub fn config(&self, objects: &Objects) -> Config {
        self.process("volumes").config(objects)
    }
}

impl<'a> Process<'a> {
    pub fn name(&self) -> &'a str {
        text(&self.container["name"])
    }

    /// The arguments, followed by those of the environment, as flags.
    pub fn arguments(&self) -> Vec<String> {
        let definition = Cli::command();
        let mut all = vec![text(&self.container["command"][0]).to_owned()];
        all.extend(
            texts(&self.container["args"])
                .into_iter()
                .map(str::to_owned),
        );
        // What has a value in the manifest is for others, such as NVIDIA's runtime. A ConfigMap that may be absent, as that of
        // traces, is not there.
        let for_it = |variable: &&Value| {
            let of_file = &variable["valueFrom"]["configMapKeyRef"];
            variable["value"].is_null() && of_file["optional"] != true
        };
        for variable in list(&self.container["env"]).iter().filter(for_it) {
            let flag = flag_of(&definition, &all[1], text(&variable["name"]));
            all.extend([format!("--{flag}"), self.value(variable)]);
        }
        all
    }

    /// Returns the value that the kubelet gives a variable.
    fn value(&self, variable: &Value) -> String {
        let from = &variable["valueFrom"];
        if from["fieldRef"]["fieldPath"] == "spec.nodeName" {
            return "node-1".to_owned();
        }
        assert_eq!(from["resourceFieldRef"]["resource"], "limits.memory");
        assert_eq!(from["resourceFieldRef"]["divisor"], "1");
        let of = &from["resourceFieldRef"]["containerName"];
        let mut containers = list(&self.pods.spec["containers"]).iter();
        let container = containers.find(|container| container["name"] == *of);
        memory_limit(container.unwrap()).to_string()
    }

    /// The text of its configuration file, found as the container would find it.
    pub fn file(&self, objects: &'a Objects) -> &'a str {
        let arguments = texts(&self.container["args"]);
        let mut pairs = arguments.windows(2);
        let path = pairs.find_map(|two| (two[0] == "--config").then_some(two[1]));
        let (folder, file) = path.unwrap().rsplit_once('/').unwrap();
        let mut mounts = list(&self.container["volumeMounts"]).iter();
        let mount = mounts.find(|mount| mount["mountPath"] == folder).unwrap();
        let name = &self.pods.volume(&mount["name"])["configMap"]["name"];
        text(&objects.one("ConfigMap", text(name))["data"][file])
    }

    /// The configuration that it would run with: the real definition of the command line, and the real checks.
    pub fn config(&self, objects: &Objects) -> Config {
        let matches = Cli::command().try_get_matches_from(self.arguments());
        let matches = matches.unwrap_or_else(|error| panic!("{error}"));
        let (subcommand, matches) = matches.subcommand().expect("a subcommand");
        assert_eq!(subcommand, self.name());
        let mut flags = ConfigFlags::from_arg_matches(matches).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.toml");
        std::fs::write(&path, self.file(objects)).unwrap();
        flags.config = Some(path);
        flags
            .load()
            .unwrap_or_else(|error| panic!("{subcommand}: {error}"))
    }
}

pub fn memory_limit(container: &Value) -> u64 {
    tetris_scaler::nodes::bytes(text(&container["resources"]["limits"]["memory"])).unwrap()
}

/// The flag of a subcommand that a variable stands for.
fn flag_of(definition: &Command, subcommand: &str, variable: &str) -> String {
    let mut subcommands = definition.get_subcommands();
    let subcommand = subcommands
        .find(|found| found.get_name() == subcommand)
        .unwrap_or_else(|| panic!("no subcommand `{subcommand}`"));
    let mut arguments = subcommand.get_arguments();
    let argument = arguments.find(|found| found.get_env().is_some_and(|env| env == variable));
    let argument = argument.unwrap_or_else(|| panic!("no flag reads {variable}"));
    argument.get_long().unwrap().to_owned()
}
