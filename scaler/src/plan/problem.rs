//! Input of a plan.

use tetris_scaler_core::{InstanceView, View};

use super::args::PlanArgs;
use super::documents::Documents;
use super::error::PlanError;
use super::functions::{Function, functions};
use super::nodes::Nodes;
use super::pods::{Role, role};
use super::read::read_all;

/// Input of a plan.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) functions: Vec<Function>,
    pub(super) views: Vec<tetris_scaler_core::FunctionView>,
    pub(super) instances: Vec<InstanceView>,
    pub(super) cluster: Nodes,
}

impl Problem {
    pub(super) fn read(args: &PlanArgs) -> Result<Self, PlanError> {
        let mut documents = Documents::sort(read_all(&args.file)?)?;
        let functions = functions(&mut documents, &args.load)?;
        let mut cluster = Nodes::read(&documents, &functions)?;
        let instances = pods(&documents, &functions, &mut cluster)?;
        let ignored = documents.ignored.iter();
        let notes = ignored.map(|(kind, count)| format!("ignored {count} of kind {kind}"));
        cluster.notes.extend(notes);
        Ok(Self {
            views: functions.iter().map(Function::view).collect(),
            functions,
            instances,
            cluster,
        })
    }

    pub(super) fn node_name(&self, index: usize) -> &str {
        let node = self.cluster.nodes.get(index);
        node.map_or("", |node| &node.name)
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            functions: &self.views,
            instances: &self.instances,
            nodes: &self.cluster.nodes,
            inventory: &self.cluster.inventory,
        }
    }
}

/// Returns the instances, and subtracts the resources of other pods from their nodes.
fn pods(
    documents: &Documents,
    functions: &[Function],
    cluster: &mut Nodes,
) -> Result<Vec<InstanceView>, PlanError> {
    let mut instances = Vec::new();
    let mut taken = Vec::new();
    let by_name = cluster.by_name();
    for pod in &documents.pods {
        let role = role(pod, functions, &by_name).map_err(|error| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let problem = format!("Pod {name}: resources: {error}");
            PlanError::Missing { problem }
        })?;
        match role {
            Role::Nothing => {}
            Role::Instance(instance) => instances.push(instance),
            Role::Other { node, takes } => {
                taken.extend(by_name.get(node.as_str()).map(|index| (*index, takes)));
            }
        }
    }
    for (node, takes) in taken {
        cluster.take(node, takes);
    }
    Ok(instances)
}
