//! The messages of KEDA's external scaler: package `externalscaler`, with the field numbers of
//! `pkg/scalers/externalscaler/externalscaler.proto` (<https://github.com/kedacore/keda>). Fields that are not here are
//! skipped when they come, as in every protobuf message.
//!
//! The whole numbers `targetSize` and `metricValue` are deprecated in favour of the fractions beside them. KEDA reads the
//! fraction if it is above zero and the whole number otherwise, older versions the whole number alone: both are sent.

use std::collections::HashMap;

/// The ScaledObject that KEDA asks for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScaledObjectRef {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace, which is the function's.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// The trigger's metadata, as in the ScaledObject.
    #[prost(map = "string, string", tag = "3")]
    pub scaler_metadata: HashMap<String, String>,
}

/// Whether there are to be instances.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct IsActiveResponse {
    /// Whether there is to be at least one.
    #[prost(bool, tag = "1")]
    pub result: bool,
}

/// Which metrics the autoscaler is to go by.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricSpecResponse {
    /// The metrics.
    #[prost(message, repeated, tag = "1")]
    pub metric_specs: Vec<MetricSpec>,
}

/// A metric, and how much of it an instance takes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricSpec {
    /// Its name.
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// How much an instance takes.
    #[prost(int64, tag = "2")]
    pub target_size: i64,
    /// The same.
    #[prost(double, tag = "3")]
    pub target_size_float: f64,
}

/// Asks for a metric's value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetMetricsRequest {
    /// The ScaledObject.
    #[prost(message, optional, tag = "1")]
    pub scaled_object_ref: Option<ScaledObjectRef>,
    /// The metric, without the prefix that KEDA gives it.
    #[prost(string, tag = "2")]
    pub metric_name: String,
}

/// Values of metrics.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricsResponse {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub metric_values: Vec<MetricValue>,
}

/// The value of a metric.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricValue {
    /// The metric.
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// Its value.
    #[prost(int64, tag = "2")]
    pub metric_value: i64,
    /// The same.
    #[prost(double, tag = "3")]
    pub metric_value_float: f64,
}
