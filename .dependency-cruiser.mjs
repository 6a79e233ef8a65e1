/*
 * The import walls. One table of layers: a folder may import its own layer's folders only where `beside` says so, the
 * layers above it in this table, and nothing below. test/repo/walls.test.ts plants one breach of each rule and sees it
 * refused, so that this file cannot go blind.
 */
const LAYERS = [
  { folders: ['kernel'], beside: true },
  { folders: ['db'], beside: true },
  { folders: ['ledger'], beside: true },
  { folders: ['engine', 'inbox', 'outbox'], beside: true },
  { folders: ['flows'], beside: true },
  { folders: ['audit'], beside: true },
  { folders: ['api', 'worker', 'cli'], beside: false },
  { folders: ['main'], beside: true },
];

const ALL = LAYERS.flatMap((layer) => layer.folders);

function layerRules() {
  return LAYERS.flatMap((layer, rank) =>
    layer.folders.map((folder) => {
      const later = LAYERS.slice(rank + 1).flatMap((other) => other.folders);
      const siblings = layer.beside ? [] : layer.folders.filter((other) => other !== folder);
      const barred = [...later, ...siblings];
      return {
        name: `wall-${folder}`,
        comment: `${folder} imports nothing of the layers after it: ${LAYERS.map((l) => l.folders.join(', ')).join(' -> ')}.`,
        severity: 'error',
        from: { path: `^src/${folder}/` },
        to: { path: barred.length === 0 ? '^$' : `^src/(${barred.join('|')})/` },
      };
    }),
  ).filter((rule) => rule.to.path !== '^$');
}

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    ...layerRules(),
    {
      name: 'wall-rails-see-the-port',
      comment:
        'A rail knows engine/rail.ts (the port), kernel, the wire that all rails share (rails/*.ts) and itself: no database handle, no flow, no other rail.',
      severity: 'error',
      from: { path: '^src/rails/([^/]+)/' },
      to: {
        path: '^(src|sim|test|scripts|bench)/',
        pathNot: '^src/(kernel/|engine/rail\\.ts$|rails/[^/]+\\.ts$|rails/$1/)',
      },
    },
    {
      name: 'wall-rails-share-a-wire',
      comment: 'What all rails share knows the port and kernel, and no rail.',
      severity: 'error',
      from: { path: '^src/rails/[^/]+\\.ts$' },
      to: {
        path: '^(src|sim|test|scripts|bench)/',
        pathNot: '^src/(kernel/|engine/rail\\.ts$|rails/[^/]+\\.ts$)',
      },
    },
    {
      name: 'wall-rails-are-wired-in-main',
      comment: 'Only main picks rails; everybody else speaks to the port.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(main/|rails/|index\\.ts$)' },
      to: { path: '^src/rails/' },
    },
    {
      name: 'wall-flows-apart',
      comment: 'A flow knows no other flow. What two flows share belongs to the ledger or the engine.',
      severity: 'error',
      from: { path: '^src/flows/([^/]+)/' },
      to: { path: '^src/flows/[^/]+/', pathNot: '^src/flows/$1/' },
    },
    {
      name: 'wall-sim-sees-kernel',
      comment: 'A simulator sees kernel only, so that it cannot share our misreading of a provider.',
      severity: 'error',
      from: { path: '^sim/' },
      to: { path: '^(src|test|scripts|bench)/', pathNot: '^src/kernel/' },
    },
    {
      name: 'wall-src-sees-src',
      comment:
        'The product imports nothing of test, scripts, guards or bench; of sim only main does, for `payonce up`.',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(test|scripts|guards|bench)/' },
    },
    {
      name: 'wall-sim-for-main-only',
      comment: 'Simulators run beside the product; only main starts them, for `payonce up` and `payonce prove`.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/main/' },
      to: { path: '^sim/' },
    },
    {
      name: 'wall-index-is-outside',
      comment: 'src/index.ts is the public surface; nothing inside imports it.',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^src/index\\.ts$' },
    },
    {
      name: 'wall-pg-behind-db',
      comment: 'The driver stays behind src/db: COMMIT tags, time-outs and cuts are handled in one place.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/db/' },
      to: { path: '(^|/)node_modules/(@types/)?pg/' },
    },
    {
      name: 'wall-fastify-in-api',
      comment: 'HTTP routes belong to src/api.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(api|main)/' },
      to: { path: '(^|/)node_modules/(@fastify/[^/]+|fastify)/' },
    },
    {
      name: 'wall-wire-in-rails',
      comment:
        'Bytes leave by a rail or by the courier; anything else that opens a connection is a send nobody sealed.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(rails|outbox|kernel)/' },
      to: { path: '(^|/)node_modules/undici/' },
    },
    {
      name: 'no-circle',
      comment: 'No import cycle at all.',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'not-to-unresolvable',
      severity: 'error',
      from: { path: '^(src|sim|bin|scripts|guards|test)/' },
      to: { couldNotResolve: true },
    },
    {
      name: 'not-to-dev-dep',
      comment: 'What the product imports must be a dependency, or an installed package does not start.',
      severity: 'error',
      from: { path: '^(src|sim)/' },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg'],
        dependencyTypesNot: ['type-only'],
        pathNot: 'node_modules/@types/',
      },
    },
    {
      name: 'folder-has-a-layer',
      comment: `A new folder under src needs a place in the table at the top: ${ALL.join(', ')}, rails.`,
      severity: 'error',
      from: {},
      to: { path: '^src/[^/]+/', pathNot: `^src/(${[...ALL, 'rails'].join('|')})/` },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^(dist|bench/node_modules)/' },
    // The default parser reads nothing with TypeScript 7; swc sees `import type` too.
    parser: 'swc',
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      extensions: ['.ts', '.js', '.mjs', '.json'],
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
      mainFields: ['module', 'main', 'types'],
    },
  },
};
