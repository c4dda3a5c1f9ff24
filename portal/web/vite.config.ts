import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The portal serves /index.html for the addresses of the console and /assets/* for ever; see portal/src/http/assets.rs.
export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "dist/console",
    emptyOutDir: true,
    target: "es2022",
    // Nothing is put into the page or into style sheets as data: the policy of the page allows own files only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // Moved out of what is embedded by scripts/compress.mjs; scripts/size.mjs reads it.
    manifest: "manifest.json",
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name]-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  server: {
    // `npm run dev` beside a running `vctl up`.
    proxy: { "/api": { target: process.env.VCTL_URL ?? "https://127.0.0.1:8443", secure: false, ws: true } },
  },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
});
