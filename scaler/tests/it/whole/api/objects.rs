//! Objects with versions, and their history.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// Resource, namespace and name of an object.
pub type Id = (String, String, String);

pub fn id(resource: &str, namespace: &str, name: &str) -> Id {
    (resource.to_owned(), namespace.to_owned(), name.to_owned())
}

/// A change, as a watch reports it.
pub struct Event {
    pub version: u64,
    pub what: &'static str,
    pub id: Id,
    pub object: Value,
}

#[derive(Default)]
pub struct Objects {
    all: BTreeMap<Id, Value>,
    pub history: Vec<Event>,
    pub version: u64,
    /// Oldest version that a watch may start from.
    pub oldest: u64,
}

impl Objects {
    pub fn get(&self, id: &Id) -> Option<&Value> {
        self.all.get(id)
    }

    pub fn of(&self, resource: &str) -> Vec<(Id, Value)> {
        let all = self.all.iter().filter(|(id, _)| id.0 == resource);
        all.map(|(id, object)| (id.clone(), object.clone()))
            .collect()
    }

    pub fn has_uid(&self, uid: &Value) -> bool {
        let mut all = self.all.values();
        all.any(|object| object["metadata"]["uid"] == *uid)
    }

    pub fn create(&mut self, id: &Id, mut object: Value) -> Value {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let metadata = &mut object["metadata"];
        metadata["uid"] = format!("uid-{}", self.version + 1).into();
        metadata["creationTimestamp"] = now.to_string().into();
        metadata["generation"] = 1.into();
        metadata["name"] = id.2.clone().into();
        if !id.1.is_empty() {
            metadata["namespace"] = id.1.clone().into();
        }
        self.put("ADDED", id, object)
    }

    /// Writes a different object; an equal one changes nothing.
    pub fn update(&mut self, id: &Id, mut object: Value) -> Value {
        let old = self.all[id].clone();
        let kept = [
            "uid",
            "creationTimestamp",
            "generation",
            "resourceVersion",
            "name",
            "namespace",
        ];
        for field in kept {
            if let Some(value) = old["metadata"].get(field) {
                object["metadata"][field] = value.clone();
            }
        }
        if object == old {
            return old;
        }
        if object["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_u64().unwrap();
            object["metadata"]["generation"] = (generation + 1).into();
        }
        self.put("MODIFIED", id, object)
    }

    /// Changes an existing object.
    pub fn change(&mut self, id: &Id, change: impl FnOnce(&mut Value)) {
        let mut object = self.all[id].clone();
        change(&mut object);
        self.update(id, object);
    }

    pub fn remove(&mut self, id: &Id) -> Value {
        let object = self.put("DELETED", id, self.all[id].clone());
        self.all.remove(id);
        object
    }

    /// Expires all versions, so that watches cannot resume.
    pub fn expire(&mut self) {
        self.version += 1;
        self.oldest = self.version;
    }

    fn put(&mut self, what: &'static str, id: &Id, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.all.insert(id.clone(), object.clone());
        self.history.push(Event {
            version: self.version,
            what,
            id: id.clone(),
            object: object.clone(),
        });
        object
    }
}
