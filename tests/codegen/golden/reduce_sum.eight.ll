; reduce_sum: 8 lanes
declare i8 @llvm.cttz.i8(i8, i1)
declare <8 x i32> @llvm.masked.load.v8i32.p0(ptr, i32, <8 x i1>, <8 x i32>)
declare void @llvm.masked.store.v8i32.p0(<8 x i32>, ptr, i32, <8 x i1>)
declare void @llvm.masked.scatter.v8i32.v8p0(<8 x i32>, <8 x ptr>, i32, <8 x i1>)

define void @"reduce_sum"(ptr noalias %arguments, ptr noalias %counter, i64 %groups, i64 %chunk) nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" {
entry:
  %s0 = getelementptr i64, ptr %arguments, i64 0
  %p0 = load i32, ptr %s0
  %s1 = getelementptr i64, ptr %arguments, i64 1
  %p1 = load ptr, ptr %s1
  %s2 = getelementptr i64, ptr %arguments, i64 2
  %p2 = load ptr, ptr %s2
  %m0 = alloca [8 x i32], align 64
  %groups32 = trunc i64 %groups to i32
  br label %take
take:
  %first = atomicrmw add ptr %counter, i64 %chunk monotonic
  %more = icmp ult i64 %first, %groups
  br i1 %more, label %begin, label %finished
begin:
  %wanted = add i64 %first, %chunk
  %fits = icmp ult i64 %wanted, %groups
  %last = select i1 %fits, i64 %wanted, i64 %groups
  br label %group
group:
  %index = phi i64 [ %first, %begin ], [ %following, %next ]
  %group32 = trunc i64 %index to i32
  %v0 = mul i32 %group32, 8
  %v1 = insertelement <8 x i32> poison, i32 %v0, i64 0
  %v2 = shufflevector <8 x i32> %v1, <8 x i32> poison, <8 x i32> zeroinitializer
  %v3 = add <8 x i32> %v2, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v4 = insertelement <8 x i32> poison, i32 %p0, i64 0
  %v5 = shufflevector <8 x i32> %v4, <8 x i32> poison, <8 x i32> zeroinitializer
  %v6 = icmp ult <8 x i32> %v3, %v5
  %v7 = xor <8 x i1> %v6, splat (i1 true)
  %v10 = bitcast <8 x i1> %v6 to i8
  %v11 = icmp ne i8 %v10, 0
  br i1 %v11, label %run9, label %after10
run9:
  %v12 = bitcast <8 x i1> %v6 to i8
  %v13 = call i8 @llvm.cttz.i8(i8 %v12, i1 true)
  %v14 = zext i8 %v13 to i64
  %v15 = extractelement <8 x i32> %v3, i64 %v14
  %v16 = zext i32 %v15 to i64
  %v17 = sub i64 %v16, %v14
  %v18 = getelementptr i32, ptr %p1, i64 %v17
  %v19 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v18, i32 4, <8 x i1> %v6, <8 x i32> zeroinitializer)
  br label %after10
after10:
  %v20 = phi <8 x i32> [ %v19, %run9 ], [ zeroinitializer, %group ]
  %v23 = bitcast <8 x i1> %v7 to i8
  %v24 = icmp ne i8 %v23, 0
  br i1 %v24, label %run22, label %after23
run22:
  br label %after23
after23:
  %v25 = phi <8 x i32> [ splat (i32 0), %run22 ], [ zeroinitializer, %after10 ]
  %v26 = select <8 x i1> %v6, <8 x i32> %v20, <8 x i32> %v25
  %v27 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 0
  %v28 = zext i32 %v27 to i64
  %v29 = getelementptr i32, ptr %m0, i64 %v28
  store <8 x i32> %v26, ptr %v29, align 4
  %v30 = add <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, splat (i32 4)
  %v31 = icmp ult <8 x i32> %v30, splat (i32 8)
  %v32 = xor <8 x i1> %v31, splat (i1 true)
  %v35 = bitcast <8 x i1> %v31 to i8
  %v36 = icmp ne i8 %v35, 0
  br i1 %v36, label %run34, label %after35
run34:
  %v37 = bitcast <8 x i1> %v31 to i8
  %v38 = call i8 @llvm.cttz.i8(i8 %v37, i1 true)
  %v39 = zext i8 %v38 to i64
  %v40 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v39
  %v41 = zext i32 %v40 to i64
  %v42 = sub i64 %v41, %v39
  %v43 = getelementptr i32, ptr %m0, i64 %v42
  %v44 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v43, i32 4, <8 x i1> %v31, <8 x i32> zeroinitializer)
  %v45 = bitcast <8 x i1> %v31 to i8
  %v46 = call i8 @llvm.cttz.i8(i8 %v45, i1 true)
  %v47 = zext i8 %v46 to i64
  %v48 = extractelement <8 x i32> %v30, i64 %v47
  %v49 = zext i32 %v48 to i64
  %v50 = sub i64 %v49, %v47
  %v51 = getelementptr i32, ptr %m0, i64 %v50
  %v52 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v51, i32 4, <8 x i1> %v31, <8 x i32> zeroinitializer)
  %v53 = add <8 x i32> %v44, %v52
  %v54 = bitcast <8 x i1> %v31 to i8
  %v55 = call i8 @llvm.cttz.i8(i8 %v54, i1 true)
  %v56 = zext i8 %v55 to i64
  %v57 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v56
  %v58 = zext i32 %v57 to i64
  %v59 = sub i64 %v58, %v56
  %v60 = getelementptr i32, ptr %m0, i64 %v59
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v53, ptr %v60, i32 4, <8 x i1> %v31)
  br label %after35
after35:
  %v61 = add <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, splat (i32 2)
  %v62 = icmp ult <8 x i32> %v61, splat (i32 4)
  %v63 = xor <8 x i1> %v62, splat (i1 true)
  %v66 = bitcast <8 x i1> %v62 to i8
  %v67 = icmp ne i8 %v66, 0
  br i1 %v67, label %run65, label %after66
run65:
  %v68 = bitcast <8 x i1> %v62 to i8
  %v69 = call i8 @llvm.cttz.i8(i8 %v68, i1 true)
  %v70 = zext i8 %v69 to i64
  %v71 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v70
  %v72 = zext i32 %v71 to i64
  %v73 = sub i64 %v72, %v70
  %v74 = getelementptr i32, ptr %m0, i64 %v73
  %v75 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v74, i32 4, <8 x i1> %v62, <8 x i32> zeroinitializer)
  %v76 = bitcast <8 x i1> %v62 to i8
  %v77 = call i8 @llvm.cttz.i8(i8 %v76, i1 true)
  %v78 = zext i8 %v77 to i64
  %v79 = extractelement <8 x i32> %v61, i64 %v78
  %v80 = zext i32 %v79 to i64
  %v81 = sub i64 %v80, %v78
  %v82 = getelementptr i32, ptr %m0, i64 %v81
  %v83 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v82, i32 4, <8 x i1> %v62, <8 x i32> zeroinitializer)
  %v84 = add <8 x i32> %v75, %v83
  %v85 = bitcast <8 x i1> %v62 to i8
  %v86 = call i8 @llvm.cttz.i8(i8 %v85, i1 true)
  %v87 = zext i8 %v86 to i64
  %v88 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v87
  %v89 = zext i32 %v88 to i64
  %v90 = sub i64 %v89, %v87
  %v91 = getelementptr i32, ptr %m0, i64 %v90
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v84, ptr %v91, i32 4, <8 x i1> %v62)
  br label %after66
after66:
  %v92 = add <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, splat (i32 1)
  %v93 = icmp ult <8 x i32> %v92, splat (i32 2)
  %v94 = xor <8 x i1> %v93, splat (i1 true)
  %v97 = bitcast <8 x i1> %v93 to i8
  %v98 = icmp ne i8 %v97, 0
  br i1 %v98, label %run96, label %after97
run96:
  %v99 = bitcast <8 x i1> %v93 to i8
  %v100 = call i8 @llvm.cttz.i8(i8 %v99, i1 true)
  %v101 = zext i8 %v100 to i64
  %v102 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v101
  %v103 = zext i32 %v102 to i64
  %v104 = sub i64 %v103, %v101
  %v105 = getelementptr i32, ptr %m0, i64 %v104
  %v106 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v105, i32 4, <8 x i1> %v93, <8 x i32> zeroinitializer)
  %v107 = bitcast <8 x i1> %v93 to i8
  %v108 = call i8 @llvm.cttz.i8(i8 %v107, i1 true)
  %v109 = zext i8 %v108 to i64
  %v110 = extractelement <8 x i32> %v92, i64 %v109
  %v111 = zext i32 %v110 to i64
  %v112 = sub i64 %v111, %v109
  %v113 = getelementptr i32, ptr %m0, i64 %v112
  %v114 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v113, i32 4, <8 x i1> %v93, <8 x i32> zeroinitializer)
  %v115 = add <8 x i32> %v106, %v114
  %v116 = bitcast <8 x i1> %v93 to i8
  %v117 = call i8 @llvm.cttz.i8(i8 %v116, i1 true)
  %v118 = zext i8 %v117 to i64
  %v119 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v118
  %v120 = zext i32 %v119 to i64
  %v121 = sub i64 %v120, %v118
  %v122 = getelementptr i32, ptr %m0, i64 %v121
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v115, ptr %v122, i32 4, <8 x i1> %v93)
  br label %after97
after97:
  %v123 = icmp eq <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, splat (i32 0)
  %v124 = xor <8 x i1> %v123, splat (i1 true)
  %v127 = bitcast <8 x i1> %v123 to i8
  %v128 = icmp ne i8 %v127, 0
  br i1 %v128, label %run126, label %after127
run126:
  %v129 = bitcast <8 x i1> %v123 to i8
  %v130 = call i8 @llvm.cttz.i8(i8 %v129, i1 true)
  %v131 = zext i8 %v130 to i64
  %v132 = extractelement <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, i64 %v131
  %v133 = zext i32 %v132 to i64
  %v134 = sub i64 %v133, %v131
  %v135 = getelementptr i32, ptr %m0, i64 %v134
  %v136 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v135, i32 4, <8 x i1> %v123, <8 x i32> zeroinitializer)
  %v137 = zext i32 %group32 to i64
  %v138 = getelementptr i32, ptr %p2, i64 %v137
  %v139 = insertelement <8 x ptr> poison, ptr %v138, i64 0
  %v140 = shufflevector <8 x ptr> %v139, <8 x ptr> poison, <8 x i32> zeroinitializer
  call void @llvm.masked.scatter.v8i32.v8p0(<8 x i32> %v136, <8 x ptr> %v140, i32 4, <8 x i1> %v123)
  br label %after127
after127:
  br label %next
next:
  %following = add i64 %index, 1
  %again = icmp ult i64 %following, %last
  br i1 %again, label %group, label %take
finished:
  ret void
}
