/* graph.c - steps of few tokens as graphs: captured once for a shape, launched with one call from then on. What differs from
 * step to step lies in the step buffer, so a graph is never changed. */
#include <string.h>
#include "cuda/exec.h"

static struct qr_cuda_graph *find(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape)
{
    struct qr_cuda_graph *oldest = &exec->graph[0];
    for (int i = 0; i < QR_CUDA_GRAPHS; i++) {
        struct qr_cuda_graph *g = &exec->graph[i];
        if (g->n_token == shape->n_token && g->n_row == shape->n_row && g->max_few == shape->max_few)
            return g;
        if (g->used < oldest->used)
            oldest = g;
    }
    return oldest;
}

static enum qr_status capture(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape, struct qr_cuda_graph *g,
                              struct qr_err *err)
{
    cudaGraph_t graph = NULL;
    uint64_t before = exec->n_launch;
    if (g->run) /* an earlier launch of it may still run: destroying waits for none, and needs none */
        cudaGraphExecDestroy(g->run);
    *g = (struct qr_cuda_graph){0};
    QR_CUDA(cudaStreamBeginCapture(exec->on.stream, cudaStreamCaptureModeThreadLocal), "capturing a step", err);
    exec->capturing = true;
    enum qr_status status = qr_cuda_walk(exec, shape, err);
    exec->capturing = false;
    cudaError_t e = cudaStreamEndCapture(exec->on.stream, &graph); /* also after a failure */
    if (status == QR_OK)
        status = qr_cuda_status(e, "capturing a step", err);
    if (status == QR_OK)
        status = qr_cuda_status(cudaGraphInstantiate(&g->run, graph, 0), "making a graph", err);
    if (graph)
        cudaGraphDestroy(graph);
    g->n_kernel = (int)(exec->n_launch - before);
    exec->n_launch = before;
    if (status != QR_OK)
        return status;
    g->n_token = shape->n_token;
    g->n_row = shape->n_row;
    g->max_few = shape->max_few;
    return QR_OK;
}

enum qr_status qr_cuda_launch_graph(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape, struct qr_err *err)
{
    struct qr_cuda_graph *g = find(exec, shape);
    if (g->n_token != shape->n_token || g->n_row != shape->n_row || g->max_few != shape->max_few)
        QR_TRY(capture(exec, shape, g, err));
    g->used = ++exec->turn;
    exec->n_launch += (uint64_t)g->n_kernel;
    return qr_cuda_status(cudaGraphLaunch(g->run, exec->on.stream), "launching a graph", err);
}

void qr_cuda_graphs_free(struct qr_cuda_exec *exec)
{
    for (int i = 0; i < QR_CUDA_GRAPHS; i++)
        if (exec->graph[i].run)
            cudaGraphExecDestroy(exec->graph[i].run);
    memset(exec->graph, 0, sizeof exec->graph);
}
