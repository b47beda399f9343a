// Prints the definitions of Java files as javac names them: path, first line, name (line 0: javac refuses the file).
//
//     java Java.java < PATHS
import com.sun.source.tree.*;
import com.sun.source.util.*;
import java.io.*;
import java.nio.file.Path;
import java.util.*;
import javax.tools.*;

public class Java {
    public static void main(String[] given) throws Exception {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StandardJavaFileManager files = compiler.getStandardFileManager(null, null, null);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String path; (path = input.readLine()) != null; ) {
            DiagnosticCollector<JavaFileObject> problems = new DiagnosticCollector<>();
            JavacTask task = (JavacTask) compiler.getTask(null, files, problems, null, null, files.getJavaFileObjects(Path.of(path)));
            CompilationUnitTree unit = task.parse().iterator().next();
            if (problems.getDiagnostics().stream().anyMatch(one -> one.getKind() == Diagnostic.Kind.ERROR)) {
                System.out.println(path + "\t0\t");
                continue;
            }
            new Printer(path, unit, Trees.instance(task).getSourcePositions()).scan(new TreePath(unit), null);
        }
    }

    static class Printer extends TreePathScanner<Void, Void> {
        final String path;
        final CompilationUnitTree unit;
        final SourcePositions positions;

        Printer(String path, CompilationUnitTree unit, SourcePositions positions) {
            this.path = path;
            this.unit = unit;
            this.positions = positions;
        }

        void print(Tree tree, String name) {
            long start = positions.getStartPosition(unit, tree);
            if (start >= 0) System.out.println(path + "\t" + unit.getLineMap().getLineNumber(start) + "\t" + name);
        }

        @Override public Void visitClass(ClassTree tree, Void none) {
            if (!tree.getSimpleName().isEmpty()) print(tree, tree.getSimpleName().toString());
            return super.visitClass(tree, none);
        }

        @Override public Void visitMethod(MethodTree tree, Void none) {
            String owner = ((ClassTree) getCurrentPath().getParentPath().getLeaf()).getSimpleName().toString();
            print(tree, tree.getName().contentEquals("<init>") ? owner : tree.getName().toString());
            return super.visitMethod(tree, none);
        }

        @Override public Void visitVariable(VariableTree tree, Void none) {
            if (getCurrentPath().getParentPath().getLeaf() instanceof ClassTree) print(tree, tree.getName().toString());
            return super.visitVariable(tree, none);
        }
    }
}
