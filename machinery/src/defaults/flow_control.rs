//! FlowSchemas and PriorityLevelConfigurations.

use super::fill::{Fields, object, set, set_number};

pub(super) fn schema(fields: &mut Fields) {
    if let Some(spec) = object(fields, "spec") {
        set_number(spec, "matchingPrecedence", 1000);
    }
}

pub(super) fn level(fields: &mut Fields) {
    let Some(spec) = object(fields, "spec") else { return };
    if let Some(exempt) = object(spec, "exempt") {
        set(exempt, "nominalConcurrencyShares", 0);
        set(exempt, "lendablePercent", 0);
    }
    if let Some(limited) = object(spec, "limited") {
        set(limited, "nominalConcurrencyShares", 30);
        set(limited, "lendablePercent", 0);
        if let Some(queuing) = object(limited, "limitResponse").and_then(|response| object(response, "queuing")) {
            set_number(queuing, "queues", 64);
            set_number(queuing, "handSize", 8);
            set_number(queuing, "queueLengthLimit", 50);
        }
    }
}
