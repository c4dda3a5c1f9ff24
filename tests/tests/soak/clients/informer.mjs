// Informers of @kubernetes/client-node: ConfigMaps and gadgets of all namespaces.
//
// Each line on standard output is a JSON document: what the watch delivered (`event`), what a list answered (`list`), 410 (`expired`),
// other failures (`error`). A line `dump` on standard input is answered by the caches (`dump`): the informer's own, and what its
// handlers of add, update and delete would have kept.
import { createInterface } from 'node:readline';
import { CoreV1Api, CustomObjectsApi, KubeConfig, ListWatch, Watch } from '@kubernetes/client-node';

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const key = (object) => `${object.metadata.namespace}/${object.metadata.name}`;
const number = (object) => Number(object.data?.number ?? object.spec?.number ?? -1);
const item = (object) => [key(object), object.metadata.resourceVersion, number(object)];

/** The watch of the package, of which every event is told before the informer sees it. */
class ToldWatch extends Watch {
    constructor(config, resource) {
        super(config);
        this.resource = resource;
    }

    watch(path, query, callback, done) {
        const told = (type, object, event) => {
            if (type === 'ERROR') {
                say({ resource: this.resource, ...(object.code === 410 ? { what: 'expired' } : { what: 'error', text: JSON.stringify(object) }) });
            } else if (type !== 'BOOKMARK') {
                say({ resource: this.resource, what: 'event', type, at: Date.now() * 1000, item: item(object) });
            }
            return callback(type, object, event);
        };
        return super.watch(path, query, told, done);
    }
}

function start(config, resource, path, list) {
    const told = async () => {
        const answer = await list();
        say({ resource, what: 'list', version: answer.metadata.resourceVersion, items: answer.items.map(item) });
        return answer;
    };
    const informer = new ListWatch(path, new ToldWatch(config, resource), told, false);
    const handled = new Map();
    informer.on('add', (object) => handled.set(key(object), object.metadata.resourceVersion));
    informer.on('update', (object) => handled.set(key(object), object.metadata.resourceVersion));
    informer.on('delete', (object) => handled.delete(key(object)));
    informer.on('error', (error) => {
        const expired = error.code === 410 || error.statusCode === 410;
        say({ resource, what: expired ? 'expired' : 'error', text: String(error) });
        // As the package's README does it, but sooner.
        setTimeout(() => informer.start(), 300);
    });
    informer.start();
    return () => {
        const cache = informer.list().map((object) => [key(object), object.metadata.resourceVersion]);
        say({ resource, what: 'dump', cache: Object.fromEntries(cache), handled: Object.fromEntries(handled) });
    };
}

const config = new KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(CoreV1Api);
const custom = config.makeApiClient(CustomObjectsApi);
const gadgets = { group: 'soak.example.com', version: 'v1', plural: 'gadgets' };
const dumps = [
    start(config, 'configmaps', '/api/v1/configmaps', () => core.listConfigMapForAllNamespaces()),
    start(config, 'gadgets', '/apis/soak.example.com/v1/gadgets', () =>
        custom.listCustomObjectForAllNamespaces({ ...gadgets, resourcePlural: gadgets.plural })),
];
createInterface(process.stdin)
    .on('line', () => dumps.forEach((dump) => dump()))
    .on('close', () => process.exit(0));
