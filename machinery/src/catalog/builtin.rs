//! The built-in resources, GA and default-on beta, in the order of upstream's group priorities.
//!
//! One line each: `plural singular Kind scope verbs short-names categories subresources [versions]`, `-` for none. Verbs: `*` all eight, `c` create
//! only, `r` read only. Scope: `n` namespaced, `c` cluster. A subresource is `name[:Kind[@group/version]]/verbs` with verbs as first letters
//! (`c`reate, `d`elete, `g`et, `p`atch, `u`pdate); without a Kind it is the resource's own. Versions are those
//! minor versions of Kubernetes that have the resource (`36-`, `-35`), also after a subresource (`status/gpu=37-`); without them, all do.

use std::sync::Arc;

use super::{Descriptor, Subresource};
use crate::version::{MinorVersion, Versions};

const GROUPS: &[(&str, &str, &str)] = &[
    ("", "v1", CORE),
    ("apiregistration.k8s.io", "v1", "apiservices apiservice APIService c * - api-extensions status/gpu"),
    ("apps", "v1", APPS),
    ("events.k8s.io", "v1", "events event Event n * ev - -"),
    (
        "authentication.k8s.io",
        "v1",
        "selfsubjectreviews selfsubjectreview SelfSubjectReview c c - - -
         tokenreviews tokenreview TokenReview c c - - -",
    ),
    (
        "authorization.k8s.io",
        "v1",
        "localsubjectaccessreviews localsubjectaccessreview LocalSubjectAccessReview n c - - -
         selfsubjectaccessreviews selfsubjectaccessreview SelfSubjectAccessReview c c - - -
         selfsubjectrulesreviews selfsubjectrulesreview SelfSubjectRulesReview c c - - -
         subjectaccessreviews subjectaccessreview SubjectAccessReview c c - - -",
    ),
    ("autoscaling", "v2", AUTOSCALERS),
    ("autoscaling", "v1", AUTOSCALERS),
    (
        "batch",
        "v1",
        "cronjobs cronjob CronJob n * cj all status/gpu
         jobs job Job n * - all status/gpu",
    ),
    (
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests certificatesigningrequest CertificateSigningRequest c * csr - approval/gpu,status/gpu
         clustertrustbundles clustertrustbundle ClusterTrustBundle c * - - - 37-
         podcertificaterequests podcertificaterequest PodCertificateRequest n * - - status/gpu 37-",
    ),
    (
        "networking.k8s.io",
        "v1",
        "ingressclasses ingressclass IngressClass c * - - -
         ingresses ingress Ingress n * ing - status/gpu
         ipaddresses ipaddress IPAddress c * ip - -
         networkpolicies networkpolicy NetworkPolicy n * netpol - -
         servicecidrs servicecidr ServiceCIDR c * - - status/gpu",
    ),
    ("policy", "v1", "poddisruptionbudgets poddisruptionbudget PodDisruptionBudget n * pdb - status/gpu"),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "clusterrolebindings clusterrolebinding ClusterRoleBinding c * - - -
         clusterroles clusterrole ClusterRole c * - - -
         rolebindings rolebinding RoleBinding n * - - -
         roles role Role n * - - -",
    ),
    (
        "storage.k8s.io",
        "v1",
        "csidrivers csidriver CSIDriver c * - - -
         csinodes csinode CSINode c * - - status/gpu=37-
         csistoragecapacities csistoragecapacity CSIStorageCapacity n * - - -
         storageclasses storageclass StorageClass c * sc - -
         volumeattachments volumeattachment VolumeAttachment c * - - status/gpu
         volumeattributesclasses volumeattributesclass VolumeAttributesClass c * vac - - 34-",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicies mutatingadmissionpolicy MutatingAdmissionPolicy c * - api-extensions - 36-
         mutatingadmissionpolicybindings mutatingadmissionpolicybinding MutatingAdmissionPolicyBinding c * - api-extensions - 36-
         mutatingwebhookconfigurations mutatingwebhookconfiguration MutatingWebhookConfiguration c * - api-extensions -
         validatingadmissionpolicies validatingadmissionpolicy ValidatingAdmissionPolicy c * - api-extensions status/gpu
         validatingadmissionpolicybindings validatingadmissionpolicybinding ValidatingAdmissionPolicyBinding c * - api-extensions -
         validatingwebhookconfigurations validatingwebhookconfiguration ValidatingWebhookConfiguration c * - api-extensions -",
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions customresourcedefinition CustomResourceDefinition c * crd,crds api-extensions status/gpu",
    ),
    ("scheduling.k8s.io", "v1", "priorityclasses priorityclass PriorityClass c * pc - -"),
    ("coordination.k8s.io", "v1", "leases lease Lease n * - - -"),
    ("node.k8s.io", "v1", "runtimeclasses runtimeclass RuntimeClass c * - - -"),
    ("discovery.k8s.io", "v1", "endpointslices endpointslice EndpointSlice n * - - -"),
    (
        "resource.k8s.io",
        "v1",
        "deviceclasses deviceclass DeviceClass c * - - - 34-
         devicetaintrules devicetaintrule DeviceTaintRule c * - - status/gpu 37-
         resourceclaims resourceclaim ResourceClaim n * - - status/gpu 34-
         resourceclaimtemplates resourceclaimtemplate ResourceClaimTemplate n * - - - 34-
         resourceslices resourceslice ResourceSlice c * - - - 34-",
    ),
    (
        "storagemigration.k8s.io",
        "v1",
        "storageversionmigrations storageversionmigration StorageVersionMigration c * - - status/gpu 37-",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "flowschemas flowschema FlowSchema c * - - status/gpu
         prioritylevelconfigurations prioritylevelconfiguration PriorityLevelConfiguration c * - - status/gpu",
    ),
];

const AUTOSCALERS: &str =
    "horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler n * hpa all status/gpu";

const CORE: &str = "bindings binding Binding n c - - -
    componentstatuses componentstatus ComponentStatus c r cs - -
    configmaps configmap ConfigMap n * cm - -
    endpoints endpoints Endpoints n * ep - -
    events event Event n * ev - -
    limitranges limitrange LimitRange n * limits - -
    namespaces namespace Namespace c ! ns - finalize/u,status/gpu
    nodes node Node c * no - proxy:NodeProxyOptions/cdgpu,status/gpu
    persistentvolumeclaims persistentvolumeclaim PersistentVolumeClaim n * pvc - status/gpu
    persistentvolumes persistentvolume PersistentVolume c * pv - status/gpu
    pods pod Pod n * po all attach:PodAttachOptions/cg,binding:Binding/c,ephemeralcontainers/gpu,eviction:Eviction@policy/v1/c,exec:PodExecOptions/cg,log/g,portforward:PodPortForwardOptions/cg,proxy:PodProxyOptions/cdgpu,resize/gpu,status/gpu
    podtemplates podtemplate PodTemplate n * - - -
    replicationcontrollers replicationcontroller ReplicationController n * rc all scale:Scale@autoscaling/v1/gpu,status/gpu
    resourcequotas resourcequota ResourceQuota n * quota - status/gpu
    secrets secret Secret n * - - -
    serviceaccounts serviceaccount ServiceAccount n * sa - token:TokenRequest@authentication.k8s.io/v1/c
    services service Service n * svc all proxy:ServiceProxyOptions/cdgpu,status/gpu";

const APPS: &str = "controllerrevisions controllerrevision ControllerRevision n * - - -
    daemonsets daemonset DaemonSet n * ds all status/gpu
    deployments deployment Deployment n * deploy all scale:Scale@autoscaling/v1/gpu,status/gpu
    replicasets replicaset ReplicaSet n * rs all scale:Scale@autoscaling/v1/gpu,status/gpu
    statefulsets statefulset StatefulSet n * sts all scale:Scale@autoscaling/v1/gpu,status/gpu";

const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Resources whose strategy keeps `metadata.generation`.
const WITH_GENERATION: &[&str] = &[
    "pods",
    "replicationcontrollers",
    "deployments",
    "daemonsets",
    "replicasets",
    "statefulsets",
    "cronjobs",
    "jobs",
    "ingresses",
    "ingressclasses",
    "networkpolicies",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
    "priorityclasses",
    "csidrivers",
    "endpointslices",
    "flowschemas",
    "prioritylevelconfigurations",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "customresourcedefinitions",
    "deviceclasses",
    "devicetaintrules",
    "resourceslices",
];

/// All rows of a version of Kubernetes.
pub(super) fn rows(kubernetes: MinorVersion) -> Vec<Arc<Descriptor>> {
    let of = |(group, version, lines): &(&str, &str, &'static str)| -> Vec<Arc<Descriptor>> {
        lines.lines().filter_map(|line| row(group, version, line, kubernetes)).map(Arc::new).collect()
    };
    GROUPS.iter().flat_map(of).collect()
}

fn row(group: &str, version: &str, line: &str, kubernetes: MinorVersion) -> Option<Descriptor> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[plural, singular, kind, scope, verbs, short, categories, subresources, ref versions @ ..] = words.as_slice()
    else {
        return None;
    };
    if !versions.iter().all(|text| Versions::parse(text).is_some_and(|v| v.contain(kubernetes))) {
        return None;
    }
    let list = |text: &str| -> Vec<String> {
        if text == "-" { Vec::new() } else { text.split(',').map(str::to_owned).collect() }
    };
    let verbs: Vec<&str> = match verbs {
        "*" => ALL_VERBS.to_vec(),
        // Namespaces are deleted one by one.
        "!" => ALL_VERBS.iter().copied().filter(|v| *v != "deletecollection").collect(),
        "c" => vec!["create"],
        _ => vec!["get", "list"],
    };
    // Autoscalers are stored in the version that can say everything.
    let storage_version = if group == "autoscaling" { "v2" } else { version };
    Some(Descriptor {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: singular.to_owned(),
        namespaced: scope == "n",
        verbs: verbs.into_iter().map(str::to_owned).collect(),
        short_names: list(short),
        categories: list(categories),
        subresources: list(subresources)
            .iter()
            .filter_map(|text| {
                let (text, versions) = text.split_once('=').unwrap_or((text, "-"));
                Versions::parse(versions).filter(|v| v.contain(kubernetes))?;
                subresource(group, version, kind, text)
            })
            .collect(),
        storage_version: storage_version.to_owned(),
        custom: false,
        has_generation: WITH_GENERATION.contains(&plural),
        kubernetes,
        definition: None,
    })
}

fn subresource(group: &str, version: &str, kind: &str, text: &str) -> Option<Subresource> {
    let (what, verbs) = text.rsplit_once('/')?;
    let (name, of) = what.split_once(':').unwrap_or((what, ""));
    let (kind, group_version) = if of.is_empty() { (kind, "") } else { of.split_once('@').unwrap_or((of, "")) };
    let (group, version) = group_version.split_once('/').unwrap_or((group, version));
    let verb = |letter: char| match letter {
        'c' => "create",
        'd' => "delete",
        'g' => "get",
        'p' => "patch",
        _ => "update",
    };
    Some(Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: verbs.chars().map(|letter| verb(letter).to_owned()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn every_line_is_a_row() {
        let lines: usize = GROUPS.iter().map(|(_, _, lines)| lines.lines().count()).sum();
        let all: std::collections::BTreeSet<_> = MinorVersion::all()
            .flat_map(rows)
            .map(|row| (row.group.clone(), row.version.clone(), row.plural.clone()))
            .collect();
        assert_eq!(all.len(), lines);
        let catalog = Catalog::builtin();
        let pods = catalog.resource("", "v1", "pods").unwrap();
        assert_eq!(
            (&*pods.kind, &*pods.list_kind, pods.namespaced, &*pods.short_names[0]),
            ("Pod", "PodList", true, "po")
        );
        let eviction = pods.subresource("eviction").unwrap();
        assert_eq!(
            (&*eviction.group, &*eviction.version, &*eviction.kind, &*eviction.verbs[0]),
            ("policy", "v1", "Eviction", "create")
        );
        assert_eq!(catalog.stored("horizontalpodautoscalers.autoscaling").unwrap().version, "v2");
        assert_eq!(
            catalog.kind("apps", "v1", "Deployment").unwrap().subresource("scale").unwrap().group,
            "autoscaling"
        );
        assert!(!catalog.resource("", "v1", "namespaces").unwrap().verbs.iter().any(|v| v == "deletecollection"));
    }

    /// As the discovery documents of upstream's releases have it.
    #[test]
    fn every_version_has_its_own_kinds() {
        let has = |version: &str, group: &str, plural: &str| {
            Catalog::of(version.parse().unwrap()).resource(group, "v1", plural).is_some()
        };
        for (group, plural, first) in [
            ("apps", "deployments", 33),
            ("resource.k8s.io", "resourceclaims", 34),
            ("storage.k8s.io", "volumeattributesclasses", 34),
            ("admissionregistration.k8s.io", "mutatingadmissionpolicies", 36),
            ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", 36),
            ("certificates.k8s.io", "clustertrustbundles", 37),
            ("certificates.k8s.io", "podcertificaterequests", 37),
            ("resource.k8s.io", "devicetaintrules", 37),
            ("storagemigration.k8s.io", "storageversionmigrations", 37),
        ] {
            for version in MinorVersion::all() {
                assert_eq!(
                    has(&version.to_string(), group, plural),
                    version.number() >= first,
                    "{plural} in {version}"
                );
            }
        }
        let status = |version| {
            let nodes = Catalog::of(version).resource("storage.k8s.io", "v1", "csinodes").unwrap();
            nodes.subresource("status").is_some()
        };
        assert!(!status(MinorVersion::DEFAULT) && status(MinorVersion::NEWEST));
    }
}
