//! Python's module path in a container: the variable by which an interpreter finds the package.

use serde_json::{Value, json};

use super::PYTHON_PATH_ENV;
use super::lists::{items, text};

/// A reference to the value that the variable has before, which the kubelet resolves. Without such a value it stays as it is
/// written, and the package takes it out of the module path.
const EARLIER: &str = "$(PYTHONPATH)";

/// The variable that puts `folder` before the container's module path; none if it is there.
///
/// A second variable of the name leaves the first as it is, whether that has a value or takes one from elsewhere. The image's
/// own variable is not seen, and is hidden.
pub(super) fn variable(container: &Value, env: &[Value], folder: &str) -> Option<Value> {
    let is_path = |variable: &&Value| text(variable, "name") == Some(PYTHON_PATH_ENV);
    let has_folder = |variable: &Value| {
        let value = text(variable, "value").unwrap_or_default();
        value.split(':').any(|part| part == folder)
    };
    let last = env.iter().rfind(is_path);
    if last.is_some_and(has_folder) {
        return None;
    }
    // An empty part would be the working directory.
    let is_empty = |variable: &Value| {
        text(variable, "value").is_none_or(str::is_empty) && variable.get("valueFrom").is_none()
    };
    let has_earlier = match last {
        Some(variable) => !is_empty(variable),
        None => items(container, "envFrom").is_none_or(|sources| !sources.is_empty()),
    };
    let value = if has_earlier {
        format!("{folder}:{EARLIER}")
    } else {
        folder.to_owned()
    };
    Some(json!({"name": PYTHON_PATH_ENV, "value": value}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(container: &Value) -> Option<String> {
        let env = container["env"].as_array().cloned().unwrap_or_default();
        let added = variable(container, &env, "/python")?;
        assert_eq!(added["name"], "PYTHONPATH");
        Some(added["value"].as_str().unwrap().to_owned())
    }

    #[test]
    fn a_container_s_own_path_follows_ours_wherever_it_comes_from() {
        let both = Some("/python:$(PYTHONPATH)".to_owned());
        let variable = json!({"name": "PYTHONPATH", "value": "/app"});
        let reference = json!({"name": "PYTHONPATH", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}});
        let other = json!({"name": "OTHER", "value": "/python"});
        assert_eq!(value(&json!({})), Some("/python".to_owned()));
        assert_eq!(value(&json!({"env": [other]})), Some("/python".to_owned()));
        assert_eq!(value(&json!({"env": [variable]})), both);
        assert_eq!(value(&json!({"env": [reference]})), both);
        assert_eq!(
            value(&json!({"envFrom": [{"secretRef": {"name": "s"}}]})),
            both
        );
    }

    #[test]
    fn an_empty_path_adds_no_working_directory() {
        for own in [
            json!({"name": "PYTHONPATH", "value": ""}),
            json!({"name": "PYTHONPATH"}),
        ] {
            assert_eq!(value(&json!({"env": [own]})), Some("/python".to_owned()));
        }
    }

    #[test]
    fn a_path_that_has_the_folder_stays() {
        for has in ["/python", "/python:$(PYTHONPATH)", "/app:/python"] {
            let variable = json!({"name": "PYTHONPATH", "value": has});
            assert_eq!(value(&json!({"env": [variable]})), None, "{has}");
        }
        let hidden = json!([{"name": "PYTHONPATH", "value": "/python"}, {"name": "PYTHONPATH", "value": "/app"}]);
        assert!(value(&json!({"env": hidden})).is_some());
    }
}
