import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { isPassing } from "./api/client";
import { App } from "./app";
import { applyTheme } from "./lib/theme";
import "./ui/base.css";
import "./ui/components.css";

applyTheme();

const cache = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // What the server refuses it refuses again.
      retry: (count, error) => isPassing(error) && count < 2,
    },
  },
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={cache}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}
