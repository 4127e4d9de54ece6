//! Pods as an API server sends them at admission, and what becomes of them.

use serde_json::Value;
use tetris_webhook::inject::{Injection, InjectionOutcome, Options, Scope, WARNING_CHARS, inject};

macro_rules! pods {
    ($($name:literal),* $(,)?) => {
        /// All of them, by name.
        pub const PODS: &[(&str, &str)] = &[$(($name, include_str!(concat!("pods/", $name, ".json")))),*];
    };
}
pods!(
    "complete",
    "deployment",
    "init-and-sidecar",
    "job",
    "kserve",
    "minimal",
    "nulls",
    "other-volume",
    "own-volume",
    "path-taken",
    "restricted",
    "static",
    "windows",
);

/// The pod of this name.
pub fn pod(name: &str) -> Value {
    let (_, text) = PODS.iter().find(|(found, _)| *found == name).unwrap();
    serde_json::from_str(text).unwrap()
}

/// The value at a JSON pointer set, with objects made on the way.
pub fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let mut at = &mut object;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/");
        at = match token.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[token],
        };
    }
    *at = value;
    object
}

/// Returns the injection into a labeled pod.
pub fn injected(pod: &Value) -> Injection {
    let injection = inject(pod, Scope::Pod, &Options::default());
    for warning in &injection.warnings {
        assert!(warning.chars().count() <= WARNING_CHARS, "{warning}");
    }
    injection
}

/// The pod with what it is given.
pub fn patched(pod: &Value, injection: &Injection) -> Value {
    let mut patched = pod.clone();
    json_patch::patch(&mut patched, &injection.patch).unwrap();
    patched
}

/// The pod after an injection without warnings.
pub fn clean(pod: &Value) -> Value {
    let injection = injected(pod);
    assert_eq!(injection.warnings, [""; 0]);
    assert_eq!(injection.outcome, InjectionOutcome::Injected);
    patched(pod, &injection)
}

/// The only warning of a pod left as it is.
pub fn refused(pod: &Value) -> String {
    let injection = injected(pod);
    assert_eq!(injection.outcome, InjectionOutcome::Refused);
    assert!(injection.patch.is_empty());
    let [warning] = injection.warnings.try_into().unwrap();
    warning
}

/// The mount of the store in a container, and its variables.
pub fn of_container(pod: &Value, list: &str, index: usize) -> (Vec<Value>, Vec<Value>) {
    let container = &pod["spec"][list][index];
    let items = |field: &str, keep: &dyn Fn(&Value) -> bool| {
        let all = container[field].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(keep).collect()
    };
    let mounts = items("volumeMounts", &|mount| mount["name"] == "tetris-store");
    let env = items("env", &|variable| {
        variable["name"].as_str().unwrap().starts_with("TETRIS_")
    });
    (mounts, env)
}
