//! Kubernetes objects as JSON, and what tests ask of them.

use std::fs;

use serde_json::Value;

use crate::kustomize;

/// The objects of one rendered folder.
#[derive(Debug, Clone)]
pub struct Objects(pub Vec<Value>);

/// A pod, or what makes pods.
#[derive(Debug, Clone, Copy)]
pub struct Pods<'a> {
    /// The object.
    pub object: &'a Value,
    /// Metadata of its pods.
    pub metadata: &'a Value,
    /// Their `spec`.
    pub spec: &'a Value,
}

impl Objects {
    /// Reads YAML of several documents.
    ///
    /// # Errors
    /// When it is not YAML.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        Ok(Self(serde_saphyr::from_multiple(text)?))
    }

    /// Those of a golden file.
    pub fn golden(name: &str) -> Self {
        let path = kustomize::golden(name);
        let text = fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| {
            panic!("{}: {error}; UPDATE_GOLDEN=1 writes it", path.display())
        });
        Self::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The same objects without the hashes that kustomize appends to names of ConfigMaps, and to references to them.
    pub fn without_hashes(mut self) -> Self {
        let names = self.all("ConfigMap").filter_map(|map| {
            let hashed = text(&map["metadata"]["name"]);
            let (name, hash) = hashed.rsplit_once('-')?;
            let is_hash = hash.len() == 10 && hash.contains(|c: char| c.is_ascii_digit());
            is_hash.then(|| (hashed.to_owned(), name.to_owned()))
        });
        for (hashed, name) in names.collect::<Vec<_>>() {
            self.0
                .iter_mut()
                .for_each(|object| replace(object, &hashed, &name));
        }
        self
    }

    /// All of a kind.
    pub fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |object| object["kind"] == kind)
    }

    /// The one of this kind and name.
    pub fn one(&self, kind: &str, name: &str) -> &Value {
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        let mut found = self.0.iter().filter(is_it);
        match (found.next(), found.next()) {
            (Some(object), None) => object,
            found => panic!("expected one {kind} {name}, found {found:?}"),
        }
    }

    /// Everything that is a pod or makes pods.
    pub fn pods(&self) -> Vec<Pods<'_>> {
        let pods = self.0.iter().filter_map(|object| {
            let pod = match object["kind"].as_str()? {
                "Pod" => object,
                "PodTemplate" => &object["template"],
                "DaemonSet" | "Deployment" | "InferenceFunction" | "Job" => {
                    &object["spec"]["template"]
                }
                _ => return None,
            };
            Some(Pods {
                object,
                metadata: &pod["metadata"],
                spec: &pod["spec"],
            })
        });
        pods.collect()
    }
}

fn replace(value: &mut Value, before: &str, after: &str) {
    match value {
        Value::String(text) if text == before => after.clone_into(text),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| replace(item, before, after)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace(field, before, after)),
        _ => {}
    }
}

impl Pods<'_> {
    /// Returns true if the scaler makes the pods, and adds its own fields.
    pub fn are_of_a_function(&self) -> bool {
        self.object["kind"] == "InferenceFunction"
    }

    /// Kind and name, for messages.
    pub fn name(&self) -> String {
        format!(
            "{} {}",
            text(&self.object["kind"]),
            text(&self.object["metadata"]["name"])
        )
    }

    /// All containers, those that initialize among them.
    pub fn containers(&self) -> impl Iterator<Item = &Value> {
        let of = |key: &str| list(&self.spec[key]).iter();
        of("initContainers").chain(of("containers"))
    }

    /// The volume of this name.
    pub fn volume(&self, name: &Value) -> &Value {
        let mut volumes = list(&self.spec["volumes"]).iter();
        let volume = volumes.find(|volume| volume["name"] == *name);
        volume.unwrap_or_else(|| panic!("{}: no volume {name}", self.name()))
    }
}

/// An array's items; none of anything else.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A string; empty for anything else.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The strings of an array.
pub fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().map(text).collect()
}

/// Keys and values of a map of strings.
pub fn pairs(value: &Value) -> Vec<(&str, &str)> {
    let map = value.as_object().into_iter().flatten();
    map.map(|(key, value)| (key.as_str(), text(value)))
        .collect()
}
